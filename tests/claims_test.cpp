// What the documents claim and a program can check: files, keys, verbs, options, choices, what a run leaves, and what
// figures are of.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "apps/apps.h"
#include "base/files.h"
#include "base/json.h"
#include "corpus.h"
#include "small_run.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> documents() {
  std::vector<std::string> all = {"README.md", "bench/README.md", "bench/peers/README.md"};
  for (const char* folder : {"docs", "docs/decisions"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".md") all.push_back(entry.path().string());
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A document without its fenced blocks.
std::string prose(const std::string& path) {
  std::string text;
  bool inside = false;
  for (const std::string& line : lines_of(read_text(path))) {
    const bool fence = line.starts_with("```");
    if (!fence && !inside) text += line + "\n";
    inside = inside != fence;
  }
  return text;
}

// What the groups of the pattern held, [0] all of it, at each place where it matches.
std::vector<std::vector<std::string>> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::vector<std::string>> all;
  for (std::sregex_iterator m(text.begin(), text.end(), pattern); m != std::sregex_iterator(); ++m)
    all.emplace_back(m->begin(), m->end());
  return all;
}

// What stands between backticks, or in an indented line; each in one line.
std::vector<std::string> code_of(const std::string& text) {
  static const std::regex ticks("`([^`]+)`"), indented("(^|\n)    ([^\n]+)"), blanks("\\s+");
  std::vector<std::string> all;
  for (const auto& m : matches(text, ticks)) all.push_back(std::regex_replace(m[1], blanks, " "));
  for (const auto& m : matches(text, indented)) all.push_back(m[2]);
  return all;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_verb(arguments);
  const std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

// The line of `plait config` about a key; empty where there is none.
std::string line_of_key(const std::string& key) {
  static const std::vector<std::string> lines = lines_of(run({"config"}).out);
  const auto line = std::ranges::find_if(lines, [&](const std::string& l) { return l.starts_with(key + " "); });
  return line == lines.end() ? "" : *line;
}

// "run/moves*.cpp": at least one file of the folder is called so.
bool any_file(const fs::path& path) {
  static const std::regex star("\\*"), dot("\\.");
  if (path.string().find('*') == std::string::npos) return fs::exists(path);
  if (!fs::is_directory(path.parent_path())) return false;
  const std::string name = std::regex_replace(path.filename().string(), dot, "\\.");
  const std::regex pattern(std::regex_replace(name, star, ".*"));
  return std::ranges::any_of(fs::directory_iterator(path.parent_path()), [&](const fs::directory_entry& entry) {
    return std::regex_match(entry.path().filename().string(), pattern);
  });
}

TEST(Claims, cite_files_that_are_there) {
  static const std::regex file("[\\w./*-]*/[\\w.*-]+\\.(h|cpp|md|toml|py|svg|cmake|css|js|html)"),
      link("\\]\\(([^)#]+)[^)]*\\)");
  int files = 0;
  for (const std::string& document : documents()) {
    const std::string text = prose(document);
    const fs::path folder = fs::path(document).parent_path();
    for (const std::string& code : code_of(text))
      for (const std::string& word : words_of(code)) {
        if (!std::regex_match(word, file) || word.starts_with("runs/")) continue;
        EXPECT_TRUE(any_file(word) || any_file(fs::path("src") / word) || any_file(folder / word))
            << document << ": " << word;
        ++files;
      }
    for (const auto& m : matches(text, link))
      if (!m[1].starts_with("http")) EXPECT_TRUE(fs::exists(folder / m[1])) << document << ": " << m[1];
  }
  EXPECT_GE(files, 80);
}

TEST(Claims, name_keys_that_there_are) {
  const std::regex key("(^|[^\\w./-])((model|moe|mesh|schedule|memory|optim|train|data|log)\\.[a-z_]+)(?![\\w.(*-])");
  int keys = 0;
  for (const std::string& document : documents())
    for (const std::string& code : code_of(prose(document)))
      for (const auto& m : matches(code, key)) {
        if (m[2].ends_with(".safetensors")) continue;
        EXPECT_NE(line_of_key(m[2]), "") << document << ": " << m[2];
        ++keys;
      }
  EXPECT_GE(keys, 100);
}

TEST(Claims, show_commands_with_verbs_and_options_that_there_are) {
  static const std::regex command("(^|/| )plait ([a-z]+)( [a-z]+)?(?=[ `]|$)"), option("^(--[a-z-]+)(=.*)?$");
  const std::string scripts = read_text("plait") + read_text("scripts/setup");
  std::set<std::string> benches;
  for (const std::string& document : documents())
    for (const std::string& code : code_of(prose(document))) {
      std::smatch m;
      if (!std::regex_search(code, m, command)) continue;
      std::vector<std::string> words = {m[2]};
      const bool in_script = words[0] == "setup" || words[0] == "test";
      const bool has_parts = words[0] == "bench" || words[0] == "schedule";
      if (has_parts && m[3].matched) words.push_back(m[3].str().substr(1));
      if (words[0] == "bench" && words.size() > 1) benches.insert(words[1]);
      words.push_back("--help");
      const std::string help = in_script ? scripts : run(words).out;
      if (!has_parts || words.size() == 3) EXPECT_NE(help.find(words[0]), std::string::npos) << code;
      for (const std::string& word : words_of(m.suffix().str())) {
        if (word == "--") break;  // what follows is for another program
        std::smatch o;
        if (std::regex_match(word, o, option))
          EXPECT_NE(help.find(o[1]), std::string::npos) << document << ": " << code;
      }
    }
  const std::string readme = read_text("README.md");
  for (const Verb& verb : verbs())
    EXPECT_NE(readme.find(fmt::format("| `plait {}", verb.name)), std::string::npos) << verb.name;
  for (const std::string& line : lines_of(run({"bench", "--help"}).out))
    if (line.starts_with("  ")) EXPECT_TRUE(benches.contains(words_of(line)[0])) << line;
}

// The first words in backticks of the rows of the table that begins so, and whether they say (default).
std::map<std::string, bool> rows_of(const std::string& document, const std::string& header) {
  static const std::regex cell("^\\| `([^`]+)`( \\(default\\))? \\|");
  std::map<std::string, bool> rows;
  bool inside = false;
  for (const std::string& line : lines_of(read_text(document))) {
    if (line.starts_with(header)) inside = true;
    if (inside && !line.starts_with("|")) break;
    std::smatch m;
    if (inside && std::regex_search(line, m, cell)) rows[m[1]] = m[2].matched;
  }
  return rows;
}

TEST(Claims, of_choices_name_all_that_a_key_takes_and_its_default) {
  static const std::regex word("\"([a-z_0-9]+)\"");
  for (const auto& [key, header] :
       {std::pair{"moe.gate", "| gate | chooses"}, std::pair{"schedule.moe", "| family | what it does"}}) {
    std::map<std::string, int> taken;  // how often: the default once more
    for (const auto& m : matches(line_of_key(key), word)) ++taken[m[1]];
    taken.erase("auto");  // which takes one of the others
    const std::map<std::string, bool> rows = rows_of("README.md", header);
    EXPECT_EQ(rows.size(), taken.size()) << key;
    for (const auto& [name, is_default] : rows) EXPECT_EQ(taken[name], is_default ? 2 : 1) << key << " = " << name;
  }
}

TEST(Claims, of_the_rooms_are_those_of_the_list) {
  std::string table = "| room | holds |\n|---|---|\n";
  for (const std::string& line : lines_of(read_text("src/ROOMS"))) {
    if (line.starts_with("#") || line.empty()) continue;
    const size_t gap = line.find(' '), text = line.find_first_not_of(' ', gap);
    table += fmt::format("| `{}` | {} |\n", line.substr(0, gap), line.substr(text));
  }
  EXPECT_NE(read_text("docs/life_of_a_step.md").find(table), std::string::npos) << table;
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// "## What a run leaves": its files, and the names in a line of metrics.jsonl.
TEST(Claims, of_what_a_run_leaves_are_what_it_leaves) {
  const std::string readme = read_text("README.md");
  const size_t begin = readme.find("## What a run leaves"), end = readme.find("\n## ", begin + 1);
  const std::string text = std::regex_replace(readme.substr(begin, end - begin), std::regex("\\s+"), " ");
  const ScratchFolder folder;
  run_to(small_run(folder / "run", {"train.steps=2", "train.eval_every=2"}), random_corpus());
  EXPECT_EQ(names_in(folder / "run"),
            (std::set<std::string>{"config.resolved.toml", "metrics.jsonl", "loss.svg", "step-00000002", "latest"}));
  for (const char* name : {"`config.resolved.toml`", "`metrics.jsonl`", "`loss.svg`", "`step-00000060/`", "`latest`"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  const std::vector<std::string> lines = lines_of(read_text(folder / "run/metrics.jsonl"));
  const JsonObject last = JsonObject::parse(lines.back(), "metrics.jsonl");
  std::smatch told;
  ASSERT_TRUE(std::regex_search(text, told, std::regex("one object a line: ([^.]*), \\.\\.")));
  const std::string list = told[1];
  const auto names = matches(list, std::regex("(^|, )(\\w+)"));
  EXPECT_EQ(names.size(), 8u);
  for (const auto& m : names) EXPECT_TRUE(last.has(m[2])) << m[2];
  for (const char* name : {"share", "busiest", "dropped", "dead"}) {
    EXPECT_TRUE(last.objects("layers").at(0).has(name)) << name;
    EXPECT_NE(text.find(fmt::format("`{}`", name)), std::string::npos) << name;
  }
}

// docs/notation.md, "Errors"; README.md, "Verifying a layout".
TEST(Claims, of_exit_codes_and_last_lines_are_what_the_verbs_do) {
  const std::string notation = prose("docs/notation.md"), readme = read_text("README.md");
  const Outcome wrong = run({"show", "configs/tiny.toml", "mesh.tp=3"});
  EXPECT_NE(notation.find(fmt::format("| `InputError` | one line on stderr, exit code {} |", wrong.code)),
            std::string::npos);
  EXPECT_EQ(lines_of(wrong.err).size(), 1u) << wrong.err;
  const Outcome verified = run({"verify", "configs/tiny.toml", "mesh.tp=2", "mesh.ep=2", "data.path=README.md"});
  EXPECT_EQ(verified.code, 0);
  const auto masked = [](const std::string& line) {
    return std::regex_replace(line, std::regex("largest [-0-9.e]+"), "largest");
  };
  std::smatch shown;
  ASSERT_TRUE(std::regex_search(readme, shown, std::regex("\n    (agrees: [^\n]*)\n")));
  EXPECT_EQ(masked(lines_of(verified.out).back()), masked(shown[1]));
}

TEST(Claims, of_a_picture_are_the_command_that_draws_it) {
  std::smatch command;
  const std::string readme = read_text("README.md");
  ASSERT_TRUE(std::regex_search(readme, command, std::regex("`plait (show [^`]*) --svg docs/schedule.svg`")));
  const ScratchFolder folder;
  std::vector<std::string> words = words_of(command[1]);
  words.insert(words.end(), {"--svg", folder / "schedule.svg"});
  EXPECT_EQ(run(words).code, 0);
  EXPECT_EQ(read_text(folder / "schedule.svg"), read_text("docs/schedule.svg"));
}

TEST(Claims, of_presets_and_packages_are_those_of_the_set_up) {
  const std::string readme = prose("README.md"), presets = read_text("CMakePresets.json");
  const std::string setup = read_text("scripts/setup");
  std::smatch line;
  ASSERT_TRUE(std::regex_search(readme, line, std::regex("CMake presets: ([^.]*)\\.")));
  for (const std::string& name : code_of(line[1]))
    EXPECT_NE(presets.find(fmt::format("{{\"name\": \"{}\", \"inherits\": \"base\"", name)), std::string::npos) << name;
  ASSERT_TRUE(std::regex_search(readme, line, std::regex("by their Debian names: ([^.]*\\.[^.]*)\\.")));
  const std::string packages = line[1];
  for (const auto& m : matches(packages, std::regex("[a-z][a-z0-9+]*(-[a-z0-9]+)+")))
    EXPECT_NE(setup.find(m[0]), std::string::npos) << m[0];
  ASSERT_TRUE(std::regex_search(readme, line, std::regex("`torch==([0-9.]+)`")));
  EXPECT_NE(setup.find(line[1].str()), std::string::npos) << line[1];
}

// "AMD EPYC, 2 cores, ..; commit 3a824c3."
TEST(Claims, of_figures_say_the_processor_and_the_commit_they_are_of) {
  static const std::regex of("^[A-Z][^;]* cores?\\b.*; commit [0-9a-f]{7,}\\.$"),
      command("^    (\\./plait bench|bench/peers/run).*"), begin("<!-- (.*): begin -->");
  const std::string numbers = read_text("docs/numbers.md");
  EXPECT_EQ(numbers.find("unknown commit"), std::string::npos);
  EXPECT_EQ(numbers.find("-dirty"), std::string::npos);
  const std::vector<std::string> lines = lines_of(numbers);
  int told = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch section;
    if (std::regex_match(lines[i], section, begin))
      EXPECT_TRUE(i + 1 < lines.size() && std::regex_match(lines[i + 1], command)) << lines[i];
    if (!std::regex_match(lines[i], command)) continue;
    EXPECT_TRUE(i + 2 < lines.size() && std::regex_match(lines[i + 2], of)) << lines[i] << ": " << lines[i + 2];
    ++told;
  }
  EXPECT_GE(told, 13);
  const std::string readme = read_text("README.md");
  EXPECT_TRUE(std::regex_search(
      readme,
      std::regex("<!-- transcript: begin -->\nOn [^\n]* of an? [A-Z][^\n]*, at commit [0-9a-f]{7,}:\n\n```\n")));
  EXPECT_TRUE(
      std::regex_search(readme, std::regex("measured on two cores of an? [A-Z][^.]*\\s+at\\s+commit [0-9a-f]{7,}")));
}

// What README.md tells of the grid is what the tables of docs/numbers.md say.
TEST(Claims, of_speed_stand_in_the_tables) {
  const std::string readme = std::regex_replace(read_text("README.md"), std::regex("\\s+"), " ");
  const size_t begin = readme.find("On two emulated nodes of two ranks"),
               end = readme.find("All this was measured", begin);
  ASSERT_NE(end, std::string::npos);
  const std::string told = readme.substr(begin, end - begin), numbers = read_text("docs/numbers.md");
  for (const auto& m : matches(told, std::regex("([0-9]\\.[0-9]{2}) (times|and)")))
    EXPECT_NE(numbers.find(m[1] + "x"), std::string::npos) << m[0];
  for (const auto& m : matches(told, std::regex("([0-9]+\\.[0-9])%")))
    EXPECT_NE(numbers.find(m[0]), std::string::npos) << m[0];
}

}  // namespace
}  // namespace plait
