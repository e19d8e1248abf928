// `plait show`: what it prints and writes, alone and beside another config.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/apps.h"
#include "base/files.h"
#include "base/testing/scratch_folder.h"
#include "machine/machine_file.h"

namespace plait {
namespace {

constexpr const char* kTiny = "configs/tiny.toml";

struct Outcome {
  int code;
  std::string out, err;
};

Outcome show(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"show", kTiny};
  all.insert(all.end(), arguments.begin(), arguments.end());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_verb(all);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(Show, explains_and_draws_at_once) {
  const ScratchFolder folder;
  const Outcome both = show({"mesh.ep=2", "--explain", "--svg", folder / "step.svg"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_TRUE(has(both.out, "kind of step")) << both.out;
  EXPECT_TRUE(read_text(folder / "step.svg").ends_with("</svg>\n"));
}

TEST(Show, explains_what_is_sent_the_critical_path_and_the_machine) {
  const std::string out = show({"mesh.tp=2", "mesh.ep=2", "--explain"}).out;
  for (const char* words : {"machine: a laptop, a guess", "a rank sends    level", "critical path, "})
    EXPECT_TRUE(has(out, words)) << words << "\n" << out;
}

TEST(Show, lays_two_schedules_side_by_side) {
  const Outcome same = show({"mesh.tp=2", "--against", kTiny, "--with", "mesh.tp=2"});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_TRUE(has(same.out,
                  "A: configs/tiny.toml mesh.tp=2 on 2 ranks, predicted on a laptop\n"
                  "B: configs/tiny.toml mesh.tp=2 on 2 ranks, predicted on a laptop\n"))
      << same.out;
  EXPECT_TRUE(has(same.out, "1.00x")) << same.out;
  const Outcome lanes = show({"mesh.tp=2", "--with", "schedule.lanes=true", "schedule.order=overlap"});
  EXPECT_TRUE(has(lanes.out, "B: configs/tiny.toml mesh.tp=2 schedule.lanes=true schedule.order=overlap on 2 ranks"))
      << "what was said of A holds of B\n"
      << lanes.out;
}

TEST(Show, draws_two_schedules_on_one_axis_and_writes_their_table) {
  const ScratchFolder folder;
  const std::string svg = folder / "two.svg", html = folder / "two.html", csv = folder / "two.csv";
  EXPECT_EQ(show({"--with", "mesh.ep=2", "--svg", svg, "--html", html, "--csv", csv}).code, 0);
  EXPECT_TRUE(has(read_text(svg), "2 schedules on one axis of time"));
  EXPECT_TRUE(has(read_text(html), "configs/tiny.toml mesh.ep=2 on 2 ranks"));
  const std::string table = read_text(csv);
  EXPECT_TRUE(table.starts_with("what,kind,unit,A,B,ratio\nstep,\"\",s,")) << table;
  for (const char* words : {"\nsent,\"all_to_all, node\",bytes,0,", "\nmemory,\"at most\",bytes,"})
    EXPECT_TRUE(has(table, words)) << words << "\n" << table;
}

TEST(Show, says_what_a_machine_that_was_measured_on_fewer_ranks_does_not_know) {
  const ScratchFolder folder;
  Machine machine = default_machine(2);
  machine.name = "two cores", machine.ranks = 2;
  write_text(folder / "machine.toml", to_toml(machine));
  const std::string file = "schedule.machine=" + (folder / "machine.toml");
  const std::string guess = "this is of 8 ranks: what messages among more than 2 cost is a guess\n";
  const std::vector<std::string> eight = {"mesh.tp=2", "mesh.ep=4", "mesh.dp=4", file};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--explain"}, {"--svg", folder / "eight.svg"}}) {
    std::vector<std::string> words = eight;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome told = show(words);
    EXPECT_EQ(told.code, 0) << told.err;
    EXPECT_TRUE(has(told.out, guess)) << told.out;
  }
  EXPECT_FALSE(has(show({"mesh.ep=2", file, "--explain"}).out, "is a guess"));
}

TEST(Show, refuses_what_it_cannot_draw) {
  EXPECT_EQ(show({"--with", "mesh.ep=2", "--trace", "tr.json"}).err,
            "plait: --trace tr.json: a trace holds one schedule: --svg and --html draw two\n");
  EXPECT_FALSE(std::filesystem::exists("tr.json"));
  EXPECT_EQ(show({"--measure"}).code, 2);
  EXPECT_EQ(show({"--against", "nothing.toml"}).code, 2);
  EXPECT_EQ(show({"--with", "mesh.tq=2"}).code, 2);
}

TEST(Show, draws_the_same_bits_each_time) {
  const ScratchFolder folder;
  for (const char* name : {"a", "b"})
    show({"mesh.tp=2", "--svg", folder / (std::string(name) + ".svg"), "--html",
          folder / (std::string(name) + ".html")});
  EXPECT_EQ(read_text(folder / "a.svg"), read_text(folder / "b.svg"));
  EXPECT_EQ(read_text(folder / "a.html"), read_text(folder / "b.html"));
}

}  // namespace
}  // namespace plait
