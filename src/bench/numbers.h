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

// The command line again, without --numbers and its file.
std::string command_of(const std::string& bench, std::span<const std::string> arguments);

// A document with the section replaced. InputError where the two lines are missing or stand in another order; `where`
// is the document's name.
std::string with_section(const std::string& document, const std::string& name, const std::string& text,
                         const std::string& where);

// InputError where the file has no such section: to be asked before measuring.
void expect_section(const std::string& path, const std::string& name);

// What a bench has to tell.
struct Numbers {
  std::string section;  // "bench collectives"
  std::string command;  // that printed it: "./plait bench collectives --ranks 4"
  std::string text;     // Markdown
};

// Tables and lines as they were printed, for `text`.
std::string fenced(const std::string& printed);

// Writes them into the file, in one piece; the commit is that of the file's repository. Called by rank 0 alone.
void write_numbers(const std::string& path, const Numbers& numbers);

}  // namespace plait
