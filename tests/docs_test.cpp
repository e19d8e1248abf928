// The documents show schedules, faults and lines of `plait show`: all of them are what the program says today.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "apps/apps.h"
#include "base/testing/scratch_folder.h"
#include "base/text.h"
#include "bench/ted_tables.h"
#include "schedule/text.h"
#include "schedule/typing.h"
#include "train/trainer.h"

namespace plait {
namespace {

// A fenced block of a document: what stands behind the fence, and its lines.
struct Block {
  std::string title;
  std::vector<std::string> lines;
};

std::vector<Block> blocks(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<Block> all;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    const bool fence = line.starts_with("```");
    if (fence && !inside) all.push_back({line.substr(3), {}});
    if (!fence && inside) all.back().lines.push_back(line);
    inside = inside != fence;
  }
  return all;
}

// Takes the lines after "- " out and puts those after "+ " there.
std::vector<std::string> edited(std::vector<std::string> lines, const std::vector<std::string>& edit) {
  auto at = lines.end();
  for (const std::string& change : edit) {
    const std::string line = change.substr(2);
    if (change[0] == '+') {
      at = lines.insert(at, line) + 1;
      continue;
    }
    at = std::find(lines.begin(), lines.end(), line);
    EXPECT_NE(at, lines.end()) << "no such line: " << line;
    if (at != lines.end()) at = lines.erase(at);
  }
  return lines;
}

// Of a fault what stands behind the place.
std::string answer(const std::vector<std::string>& lines) {
  try {
    parse_schedule(join(lines, "\n"), "");
    return "accepted";
  } catch (const InputError& e) {
    return std::regex_replace(std::string(e.what()), std::regex("^:[0-9]+: "), "");
  }
}

TEST(Docs, show_schedules_that_parse_and_faults_with_the_message_they_get) {
  std::map<std::string, std::vector<std::string>> schedules;
  int faults = 0;
  const std::vector<Block> all = blocks("docs/schedule.md");
  for (size_t i = 0; i < all.size(); ++i) {
    const Block& block = all[i];
    if (block.title.starts_with("schedule ")) {
      EXPECT_EQ(answer(block.lines), "accepted") << block.title;
      schedules[block.title.substr(9)] = block.lines;
    }
    if (!block.title.starts_with("diff ")) continue;
    ASSERT_TRUE(i + 1 < all.size() && all[i + 1].lines.size() == 1) << "a fault without its message";
    EXPECT_EQ(answer(edited(schedules[block.title.substr(5)], block.lines)), all[i + 1].lines[0]);
    ++faults;
  }
  EXPECT_EQ(schedules.size(), 3u);
  EXPECT_GE(faults, 15);
}

bool mentions(const std::vector<std::string>& lines, std::string_view words) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

template <class E>
std::string alternatives(E last) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(last); ++i) names.push_back(fmt::format("\"{}\"", name(static_cast<E>(i))));
  return join(names, " | ");
}

TEST(Docs, show_the_grammar_that_is_parsed) {
  int seen = 0;
  for (const Block& block : blocks("docs/schedule.md")) {
    if (block.title == "ops") {
      EXPECT_EQ(join(block.lines, "\n") + "\n", op_grammar());
      ++seen;
    }
    if (block.title != "ebnf") continue;
    EXPECT_TRUE(mentions(block.lines, fmt::format("\"{}\"", kVersionLine)));
    EXPECT_TRUE(mentions(block.lines, alternatives(LeafKind::sum)));
    EXPECT_TRUE(mentions(block.lines, alternatives(MoveKind::pad)));
    ++seen;
  }
  EXPECT_EQ(seen, 2);
}

// ---- the walk: files, edits of files, and commands with what they print

// A folder in which commands run as they would in a reader's.
class Elsewhere {
 public:
  Elsewhere() : before_(std::filesystem::current_path()) { std::filesystem::current_path(folder_.str()); }
  ~Elsewhere() { std::filesystem::current_path(before_); }

 private:
  ScratchFolder folder_;
  std::filesystem::path before_;
};

void write(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream(path) << join(lines, "\n") << "\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What `plait WORDS.. [> FILE]` prints, on either stream and not into the file. Last digits are the processor's.
std::vector<std::string> performed(const std::string& command) {
  std::vector<std::string> words;
  std::istringstream in(command);
  for (std::string word; in >> word;) words.push_back(word);
  const auto into = std::ranges::find(words, ">");
  const std::string file = into == words.end() ? "" : into[1];
  words.erase(into, words.end());
  EXPECT_EQ(words.front(), "plait");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  run_verb(std::span(words).subspan(1));
  const std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
  if (!file.empty()) std::ofstream(file) << out;
  return lines_of((file.empty() ? out : "") + err);
}

std::string without_last_digits(const std::string& line) {
  return std::regex_replace(line, std::regex("[0-9]\\.[0-9]e[-+][0-9]+"), "#");
}

// Lines after one another, where "..." stands for any number of others.
void expect_cited(const std::vector<std::string>& cited, const std::vector<std::string>& printed) {
  size_t at = 0;
  bool skips = false;
  for (const std::string& line : cited) {
    if (line == "...") {
      skips = true;
      continue;
    }
    const auto same = [&](size_t i) { return without_last_digits(printed[i]) == without_last_digits(line); };
    while (skips && at < printed.size() && !same(at)) ++at;
    ASSERT_LT(at, printed.size()) << "not printed: " << line;
    EXPECT_EQ(without_last_digits(printed[at]), without_last_digits(line));
    ++at;
    skips = false;
  }
  EXPECT_TRUE(skips || at == printed.size()) << "also printed: " << printed[at];
}

// The commands of a block, each followed by what the document says that it prints.
int walk(const Block& block) {
  int commands = 0;
  for (size_t i = 0; i < block.lines.size(); ++commands) {
    const std::string& line = block.lines[i];
    SCOPED_TRACE(line);
    EXPECT_EQ(line.substr(0, 2), "$ ");
    const auto next = std::ranges::find_if(block.lines.begin() + static_cast<long>(i) + 1, block.lines.end(),
                                           [](const std::string& l) { return l.starts_with("$ "); });
    expect_cited({block.lines.begin() + static_cast<long>(i) + 1, next}, performed(line.substr(2)));
    i = static_cast<size_t>(next - block.lines.begin());
  }
  return commands;
}

TEST(Docs, are_a_walk_whose_commands_print_what_is_cited) {
  const std::vector<Block> all = blocks("docs/schedule.md");
  const Elsewhere elsewhere;
  std::map<std::string, std::vector<std::string>> files;
  int commands = 0;
  for (const Block& block : all) {
    const std::string file = block.title.substr(std::min(block.title.find(' ') + 1, block.title.size()));
    if (block.title.starts_with("file ")) files[file] = block.lines;
    if (block.title.starts_with("edit ")) files[file] = edited(files[file], block.lines);
    if (block.title.starts_with("file ") || block.title.starts_with("edit ")) write(file, files[file]);
    if (block.title == "walk") commands += walk(block);
  }
  EXPECT_GE(commands, 10);
  EXPECT_TRUE(std::filesystem::exists("step.svg") && std::filesystem::exists("step.html"));
}

TEST(Docs, cite_lines_that_show_prints) {
  const Config config = ready_config("configs/tiny.toml", std::vector<std::string>{"mesh.tp=2", "mesh.ep=2"});
  const std::string text = "\n" + print(build_step(run_shape(config)).schedule);
  int lines = 0;
  for (const Block& block : blocks("docs/life_of_a_step.md")) {
    if (block.title != "show") continue;
    for (std::string line : block.lines) {
      const bool cut = line.ends_with("...");
      if (cut) line.resize(line.size() - 3);
      EXPECT_NE(text.find("\n" + line + (cut ? "" : "\n")), std::string::npos) << line;
      ++lines;
    }
  }
  EXPECT_GE(lines, 30);
}

TEST(Docs, show_the_memory_tables_of_the_papers) {
  std::string shown;
  for (const Block& block : blocks("docs/numbers.md"))
    if (block.title == "bench memory --papers") shown += join(block.lines, "\n") + "\n";
  EXPECT_EQ(shown, ted_tables());
}

}  // namespace
}  // namespace plait
