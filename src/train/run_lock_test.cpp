#include "train/run_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

using Told = std::vector<std::string>;

RunLock::Tell into(Told& told) {
  return [&](const std::string& line) { told.push_back(line); };
}

// Between machines whose locks are not seen by one another.
LockRules between_machines(const std::string& machine) {
  return {
      .beat = std::chrono::duration<double>(0.1), .missed = 10, .locks = LockRules::Locks::none, .machine = machine};
}

constexpr const char* kLeft =
    R"({"machine": "node7", "process": 4711, "since": "2026-03-01 14:02:11", "token": "abc", "beat": 3})";

TEST(RunLock, gives_a_folder_to_one_run_and_frees_it_at_its_end) {
  const ScratchFolder folder;
  const std::string dir = folder / "runs/a";
  {
    const RunLock lock(dir, {}, {.machine = "node1"});
    EXPECT_EQ(RunLock::token_in(dir), lock.token());
    const std::string says = refusal<InputError>([&] { RunLock second(dir); });
    EXPECT_TRUE(says.starts_with("log.dir: '" + dir + "' is in use by process " + std::to_string(getpid()) +
                                 " on node1, since 20"))
        << says;
    EXPECT_TRUE(says.ends_with(": wait for its end, or choose another log.dir")) << says;
    EXPECT_EQ(refusal<InputError>([&] { RunLock::expect_free(dir); }), says);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir)) << "nothing is left";
  RunLock::expect_free(dir);
  Told told;
  const RunLock again(dir, into(told));
  EXPECT_TRUE(told.empty());
}

TEST(RunLock, of_a_killed_run_of_this_machine_is_taken_over_at_once) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(folder.str(), {}, {.machine = "node1"});
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  RunLock::expect_free(folder.str());
  Told told;
  const RunLock lock(folder.str(), into(told), {.machine = "node1"});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].starts_with(folder / "run.lock: process " + std::to_string(child) + " on node1, since "))
      << told[0];
  EXPECT_TRUE(told[0].ends_with(", has ended without removing it: taken over")) << told[0];
  EXPECT_EQ(RunLock::token_in(folder.str()), lock.token());
}

TEST(RunLock, of_another_machine_is_taken_over_when_its_beat_has_ended) {
  const ScratchFolder folder;
  spill(folder / "run.lock", std::string(kLeft) + "\n");
  Told told;
  const RunLock lock(folder.str(), into(told), between_machines("node8"));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], folder / "run.lock: left by process 4711 on node7; looking for 1 s whether it lives");
  EXPECT_EQ(told[1], folder /
                         "run.lock: process 4711 on node7, since 2026-03-01 14:02:11, has ended without removing "
                         "it: taken over");
}

TEST(RunLock, of_another_machine_is_respected_while_it_beats) {
  const ScratchFolder folder;
  const RunLock holder(folder.str(), {}, between_machines("node7"));
  const std::string says = refusal<InputError>([&] { RunLock lock(folder.str(), {}, between_machines("node8")); });
  EXPECT_NE(says.find("is in use by process " + std::to_string(getpid()) + " on node7, since "), std::string::npos)
      << says;
  EXPECT_EQ(RunLock::token_in(folder.str()), holder.token());
}

TEST(RunLock, replaces_a_file_that_says_nothing) {
  for (const std::string text : {"", "{\"machine\": \"no", "old words\n", "{}\n"}) {
    const ScratchFolder folder;
    spill(folder / "run.lock", text);
    Told told;
    const RunLock lock(folder.str(), into(told));
    EXPECT_EQ(RunLock::token_in(folder.str()), lock.token());
    EXPECT_TRUE(told.empty()) << text;
  }
}

TEST(RunLock, says_why_a_folder_cannot_be_taken) {
  const ScratchFolder folder;
  spill(folder / "file", "");
  EXPECT_EQ(refusal<InputError>([&] { RunLock lock(folder / "file"); }),
            "log.dir: cannot make the folder '" + (folder / "file") + "': Not a directory");
  std::filesystem::create_directory_symlink("/nowhere", folder / "link");
  EXPECT_NE(refusal<InputError>([&] { RunLock lock(folder / "link/run"); }).find("log.dir: cannot "),
            std::string::npos);
}

}  // namespace
}  // namespace plait
