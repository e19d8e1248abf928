#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "apps/benches.h"
#include "base/errors.h"
#include "base/files.h"
#include "bench/grid_table.h"
#include "machine/machine_file.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

class BenchGridRun : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_), fs::create_directories(folder_); }

  void TearDown() override { fs::remove_all(folder_); }

  void run(std::vector<std::string> more) {
    std::vector<std::string> words = {"--ranks", "2", "--quick", "--rounds", "1", "--threads", "1", "--file", file()};
    words.insert(words.end(), more.begin(), more.end());
    testing::internal::CaptureStderr();
    EXPECT_EQ(bench_grid(words), 0);
    progress_ = testing::internal::GetCapturedStderr();
  }

  std::string file() const { return folder_ / "grid.jsonl"; }
  fs::path folder_ = fs::temp_directory_path() /
                     (std::string("plait_grid_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  std::string progress_;
};

TEST_F(BenchGridRun, goes_on_where_it_stopped) {
  run({"--only", "t2e2-03"});
  const std::string first = read_text(file());
  run({"--only", "t2e2"});
  const std::string both = read_text(file());
  EXPECT_EQ(both.substr(0, first.size()), first);
  const GridTable table = parse_grid(both, file());
  ASSERT_EQ(table.results.size(), 2u);
  EXPECT_EQ(table.results[1].layer.id, "t2e2-09");
  EXPECT_EQ(progress_.substr(0, 14), "[2/2] t2e2-09 ");
  run({"--only", "t2e2"});
  EXPECT_EQ(read_text(file()), both);
  EXPECT_EQ(progress_, "");
}

TEST_F(BenchGridRun, refuses_the_file_of_another_run) {
  run({"--only", "t2e1-03"});
  try {
    run({"--only", "t2e1", "moe.aux_coef=0"});
    FAIL();
  } catch (const InputError& error) {
    testing::internal::GetCapturedStderr();
    EXPECT_NE(std::string(error.what()).find("holds another run: its grid is \""), std::string::npos) << error.what();
  }
}

TEST_F(BenchGridRun, refuses_what_is_no_grid) {
  const auto refused = [this](std::vector<std::string> words) {
    words.insert(words.end(), {"--file", file()});
    try {
      bench_grid(words);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  Machine machine = default_machine();
  machine.ranks = 8;
  const std::string machine_file = folder_ / "machine.toml";
  std::ofstream(machine_file) << to_toml(machine);
  EXPECT_NE(refused({"--ranks", "2", "--machine", machine_file}).find("measured with 8 ranks, but the grid has 2"),
            std::string::npos);
  EXPECT_NE(refused({"--ranks", "2", "--only", "t8"}).find("--only t8: no layer of 2 ranks"), std::string::npos);
  EXPECT_NE(refused({"--ranks", "3"}).find("a grid needs 2 ranks at least"), std::string::npos);
  EXPECT_NE(refused({"--rounds", "0"}).find("--rounds 0"), std::string::npos);
}

TEST_F(BenchGridRun, takes_turns_with_another_program) {
  const std::string program = folder_ / "peer";
  std::ofstream(program) << "#!/bin/sh\nwhile read line; do echo '{\"ms\": [2, 4, 3]}'; done\n";
  fs::permissions(program, fs::perms::owner_all);
  run({"--only", "t2e1-03", "--peer", program, "--peer-name", "other", "--html", folder_ / "grid.html"});
  const GridTable table = parse_grid(read_text(file()), file());
  const GridRow* row = table.results.at(0).find("other");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->ms, 3);
  EXPECT_NE(read_text(folder_ / "grid.html").find("Times faster than other"), std::string::npos);
}

}  // namespace
}  // namespace plait
