// Sections of a document that benches write themselves: what stands between the lines `<!-- NAME: begin -->` and
// `<!-- NAME: end -->`, with the machine, the commit and the command that made it.
#pragma once
#include <span>
#include <string>

namespace plait {

// "AMD EPYC 9654".
std::string processor();

// "AMD EPYC, 2 cores, 24 GiB, AVX-512; LibTorch 2.13; g++ 12.2".
std::string this_machine();

// The command line again, without --numbers and its file, and without --unnamed.
std::string command_of(const std::string& bench, std::span<const std::string> arguments);

// A document with the section replaced. InputError where the two lines are missing or stand in another order; `where`
// is the document's name.
std::string with_section(const std::string& document, const std::string& name, const std::string& text,
                         const std::string& where);

// Whether figures may be written of sources that no commit names.
enum class Unnamed { refused, accepted };

struct NumbersPlace {
  std::string path;     // of the document, within the repository of the sources
  std::string section;  // "bench collectives"
  Unnamed unnamed = Unnamed::refused;
};

// InputError where the file has no such section, or no commit names the sources: to be asked before measuring.
void expect_place(const NumbersPlace& place);

// What a bench has to tell.
struct Numbers {
  std::string command;  // that printed it: "./plait bench collectives --ranks 4"
  std::string text;     // Markdown
};

// Tables and lines as they were printed, for `text`.
std::string fenced(const std::string& printed);

// Writes them into the file, in one piece, with the commit that the sources are of; refuses what expect_place refuses.
// Called by rank 0 alone.
void write_numbers(const NumbersPlace& place, const Numbers& numbers);

}  // namespace plait
