#include "bench/numbers.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/errors.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"

namespace plait {
namespace {

std::string vectors() {
  if (__builtin_cpu_supports("avx512f")) return ", AVX-512";
  return __builtin_cpu_supports("avx2") ? ", AVX2" : "";
}

// What `git describe` says of the folder; changes that are not committed show.
std::string commit_of(const std::filesystem::path& folder) {
  const std::string where = folder.empty() ? "." : folder.string();
  const std::string quoted = "'" + where + "'";
  if (where.find('\'') != std::string::npos) return "unknown commit";
  FILE* git = popen(("git -C " + quoted + " describe --always --dirty --exclude '*' 2>/dev/null").c_str(), "r");
  char line[128] = "";
  const bool read = git && std::fgets(line, sizeof line, git);
  if (git) pclose(git);
  std::string commit = read ? line : "";
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  return commit.empty() ? "unknown commit" : "commit " + commit;
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
  const unsigned cores = std::thread::hardware_concurrency();
  return fmt::format("{}, {} core{}, {}{}; LibTorch {}; g++ {}", processor(), cores, cores == 1 ? "" : "s",
                     human_bytes(memory), vectors(), TORCH_VERSION, __GNUC__);
}

std::string command_of(const std::string& bench, std::span<const std::string> arguments) {
  std::vector<std::string> words = {"./plait", bench};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--numbers")
      ++i;
    else if (!arguments[i].starts_with("--numbers="))
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

void expect_section(const std::string& path, const std::string& name) { with_section(read_text(path), name, "", path); }

std::string fenced(const std::string& printed) { return fmt::format("```\n{}```\n", trimmed(printed)); }

void write_numbers(const std::string& path, const Numbers& numbers) {
  const std::string commit = commit_of(std::filesystem::path(path).parent_path());
  const std::string text =
      fmt::format("    {}\n\n{}; {}.\n\n{}", numbers.command, this_machine(), commit, numbers.text);
  const std::string document = with_section(read_text(path), numbers.section, text, path);
  DurableFile file(path);
  file.write(document);
  file.commit();
}

}  // namespace plait
