#include "bench/numbers.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/errors.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "launch/limits.h"

namespace plait {
namespace {

std::string vectors() {
  if (__builtin_cpu_supports("avx512f")) return ", AVX-512";
  return __builtin_cpu_supports("avx2") ? ", AVX2" : "";
}

// What git prints of the folder, without its last newline.
std::string git(const std::string& folder, const std::string& words) {
  if (folder.find('\'') != std::string::npos) return "";
  FILE* pipe = popen(fmt::format("git -C '{}' {} 2>/dev/null", folder, words).c_str(), "r");
  std::string printed;
  char part[256];
  while (pipe && std::fgets(part, sizeof part, pipe)) printed += part;
  if (pipe) pclose(pipe);
  while (printed.ends_with('\n')) printed.pop_back();
  return printed;
}

// "commit 3a824c3": of all that the program is made of. Figures in documents may have changed since.
std::string commit_of(const NumbersPlace& place) {
  const std::string parent = std::filesystem::path(place.path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  const std::string commit = git(folder, "rev-parse --short HEAD");
  const std::string changes = git(folder, "status --porcelain -- :/src :/cmake :/CMakeLists.txt");
  if (place.unnamed == Unnamed::refused && (commit.empty() || !changes.empty()))
    input_error("{}: {}; commit first, so that the figures say what they are of, or give --unnamed", place.path,
                commit.empty() ? fmt::format("git names no commit of the folder '{}'", folder)
                               : "the sources have changes since commit " + commit);
  if (commit.empty()) return "sources without a commit";
  return "commit " + commit + (changes.empty() ? "" : " and changes since");
}

// One word of a command line, in quotes where a shell would cut it.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_of(" \t'\"$*?;|&<>()[]{}#~`\\") == std::string::npos;
  return plain ? word : "'" + word + "'";
}

// The last newlines of a text become one.
std::string trimmed(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

}  // namespace

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "a processor";
}

std::string this_machine() {
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const int cores = launch::usable_cores();
  return fmt::format("{}, {} core{}, {}{}; LibTorch {}; g++ {}", processor(), cores, cores == 1 ? "" : "s",
                     human_bytes(memory), vectors(), TORCH_VERSION, __GNUC__);
}

std::string command_of(const std::string& bench, std::span<const std::string> arguments) {
  std::vector<std::string> words = {"./plait", bench};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--numbers")
      ++i;
    else if (!arguments[i].starts_with("--numbers=") && arguments[i] != "--unnamed")
      words.push_back(quoted(arguments[i]));
  }
  return join(words, " ");
}

std::string with_section(const std::string& document, const std::string& name, const std::string& text,
                         const std::string& where) {
  const std::string begin = fmt::format("<!-- {}: begin -->\n", name), end = fmt::format("<!-- {}: end -->\n", name);
  const size_t first = document.find(begin);
  const size_t last = first == std::string::npos ? first : document.find(end, first);
  if (last == std::string::npos)
    input_error("{}: no section for these numbers; expected the lines {} and {}", where,
                begin.substr(0, begin.size() - 1), end.substr(0, end.size() - 1));
  return document.substr(0, first + begin.size()) + trimmed(text) + document.substr(last);
}

void expect_place(const NumbersPlace& place) {
  with_section(read_text(place.path), place.section, "", place.path);
  commit_of(place);
}

std::string fenced(const std::string& printed) { return fmt::format("```\n{}```\n", trimmed(printed)); }

void write_numbers(const NumbersPlace& place, const Numbers& numbers) {
  const std::string text =
      fmt::format("    {}\n\n{}; {}.\n\n{}", numbers.command, this_machine(), commit_of(place), numbers.text);
  write_text(place.path, with_section(read_text(place.path), place.section, text, place.path));
}

}  // namespace plait
