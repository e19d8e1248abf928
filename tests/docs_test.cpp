// The documents show schedules, faults and lines of `plait show`: all of them are what the program says today.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

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
