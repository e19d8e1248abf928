// What a process may use, in systems that are made up.
#include "launch/limits.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "base/errors.h"
#include "launch/testing/made_up_system.h"

namespace plait::launch {
namespace {

TEST(Processors, are_those_that_the_process_may_run_on) {
  const MadeUpSystem system;
  EXPECT_EQ(usable_cores(system.root()), 8);
  system.status("1", 1000);
  EXPECT_EQ(usable_cores(system.root()), 1);
  system.status("0-1,4,6-7", 1000);
  EXPECT_EQ(processors(system.root()).allowed, (std::vector<int>{0, 1, 4, 6, 7}));
  EXPECT_EQ(processors(system.root()).online.size(), 8u);
}

TEST(Processors, of_this_very_process_are_told_by_the_system) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Processors bound = processors();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(bound.allowed, std::vector<int>{first});
  EXPECT_EQ(bound.usable(), 1);
}

TEST(Processors, are_as_many_as_a_quota_of_the_group_or_of_one_above_it_pays) {
  const MadeUpSystem system;
  system.unified();
  system.put("/sys/fs/cgroup/job/run/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(system.root()), 8);
  system.put("/sys/fs/cgroup/job/cpu.max", "350000 100000\n");
  EXPECT_EQ(usable_cores(system.root()), 3);
  EXPECT_EQ(processors(system.root()).quota_by, "/sys/fs/cgroup/job/cpu.max");
  system.put("/sys/fs/cgroup/job/run/cpu.max", "20000 100000\n");
  EXPECT_EQ(usable_cores(system.root()), 1) << "never none";
}

TEST(Processors, are_paid_by_quotas_of_the_first_version_too) {
  const MadeUpSystem system;
  system.by_controller();
  system.put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  system.put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(system.root()), 8);
  system.put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(usable_cores(system.root()), 2);
}

TEST(Processors, of_a_container_lie_where_its_part_of_the_hierarchy_is_seen) {
  const MadeUpSystem system;
  system.put("/proc/self/cgroup", "1:cpu:/docker/17/inner\n");
  system.put("/proc/self/mountinfo", "32 31 0:29 /docker/17 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
  system.put("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "300000\n");
  system.put("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(system.root()), 3);
  system.put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  system.put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(system.root()), 2);
}

TEST(Processors, of_a_launcher_are_not_only_those_that_it_bound_this_rank_to) {
  const MadeUpSystem system;
  system.status("2", 1000);
  system.put("/proc/7/status", "Name:\tmpirun\nCpus_allowed_list:\t0-3\n");
  EXPECT_EQ(usable_cores(system.root()), 1);
  EXPECT_EQ(processors_of_launcher(system.root()).allowed, (std::vector<int>{0, 1, 2, 3}));
}

// The refusal of ranks of this many threads each, as threads of one process.
std::string refused(const MadeUpSystem& system, const RankOptions& options) {
  return refusal<InputError>([&] { expect_threads(options, {options.ranks, options.ranks}, system.root()); });
}

TEST(Threads, more_than_the_machine_or_a_group_lets_be_started_are_refused_with_the_file_that_says_so) {
  const MadeUpSystem system;
  EXPECT_EQ(refused(system, {.ranks = 100000}), "accepted");
  system.put("/proc/sys/kernel/threads-max", "1000\n");
  EXPECT_EQ(refused(system, {.ranks = 800}), "accepted");
  EXPECT_EQ(refused(system, {.ranks = 801}),
            "801 ranks here of 1 thread need 801 threads, but 800 more can be started: 1000 are allowed by "
            "/proc/sys/kernel/threads-max, 200 are taken; lower mesh.threads or the number of ranks, or raise that "
            "limit");
  system.unified();
  system.put("/sys/fs/cgroup/job/pids.max", "64\n");
  system.put("/sys/fs/cgroup/job/pids.current", "14\n");
  system.put("/sys/fs/cgroup/job/run/pids.max", "max\n");
  EXPECT_EQ(refused(system, {.ranks = 5, .threads = 10}), "accepted");
  EXPECT_EQ(refused(system, {.ranks = 5, .threads = 9, .lanes = 2}),
            "5 ranks here of 9 threads and 2 that send need 55 threads, but 50 more can be started: 64 are allowed by "
            "/sys/fs/cgroup/job/pids.max, 14 are taken; lower mesh.threads or the number of ranks, or raise that "
            "limit");
}

TEST(Threads, of_groups_of_the_first_version_are_limited_too) {
  const MadeUpSystem system;
  system.by_controller();
  system.put("/sys/fs/cgroup/pids/job/pids.max", "40\n");
  system.put("/sys/fs/cgroup/pids/job/pids.current", "0\n");
  EXPECT_EQ(refused(system, {.ranks = 40}), "accepted");
  EXPECT_NE(refused(system, {.ranks = 41}).find("/sys/fs/cgroup/pids/job/pids.max"), std::string::npos);
}

TEST(Threads, of_a_user_are_counted_over_all_its_processes_and_root_has_no_limit) {
  const MadeUpSystem system;
  system.put("/proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax processes   150   150   processes\n");
  system.put("/proc/11/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t30\n");
  system.put("/proc/12/status", "Uid:\t1000\t1000\t1000\t1000\nThreads:\t20\n");
  system.put("/proc/13/status", "Uid:\t10000\t10000\t10000\t10000\nThreads:\t100\n");
  EXPECT_EQ(refused(system, {.ranks = 100}), "accepted");
  const std::string said = refused(system, {.ranks = 101});
  EXPECT_NE(
      said.find("100 more can be started: 150 are allowed by /proc/self/limits: Max processes, of the user, 50 are "
                "taken"),
      std::string::npos)
      << said;
  system.status("0-7", 0);
  EXPECT_EQ(refused(system, {.ranks = 101}), "accepted");
}

TEST(Threads, need_mappings_and_addresses_for_their_stacks) {
  const MadeUpSystem system;
  system.put("/proc/sys/vm/max_map_count", "2000\n");
  system.put("/proc/self/maps", std::string(500, '\n'));
  EXPECT_EQ(refused(system, {.threads = 750}), "accepted");
  EXPECT_NE(refused(system, {.threads = 751}).find("/proc/sys/vm/max_map_count"), std::string::npos);
  system.put("/proc/self/limits",
             "Max address space   2147483648   unlimited   bytes\n"
             "Max stack size      8388608      unlimited   bytes\n");
  EXPECT_EQ(refused(system, {.threads = 128}), "accepted");  // 1 GiB of 2 is taken
  EXPECT_NE(refused(system, {.threads = 129}).find("Max address space, in stacks of 8192 KiB"), std::string::npos);
}

TEST(Threads, of_ranks_that_are_processes_share_the_limits_of_their_node_only) {
  const MadeUpSystem system;
  system.put("/proc/sys/kernel/threads-max", "1000\n");
  system.put("/proc/sys/vm/max_map_count", "400\n");
  system.put("/proc/self/maps", "");
  const auto refused = [&](RanksHere here) {
    return refusal<InputError>([&] { expect_threads({.ranks = 1000, .threads = 100}, here, system.root()); });
  };
  EXPECT_EQ(refused({.of_node = 8, .of_process = 1}), "accepted");
  EXPECT_NE(refused({.of_node = 9, .of_process = 1}).find("threads-max"), std::string::npos);
  EXPECT_NE(refused({.of_node = 8, .of_process = 3}).find("max_map_count"), std::string::npos);
}

TEST(Memory, is_limited_by_the_machine_by_groups_and_by_addresses) {
  const MadeUpSystem system;
  const auto limit = [&](size_t place) { return memory_limits(system.root()).at(place); };
  EXPECT_EQ(limit(0).most, int64_t{4} << 30);
  EXPECT_EQ(limit(0).left(), int64_t{3} << 30);
  EXPECT_EQ(memory_limits(system.root()).size(), 1u);
  system.unified();
  system.put("/sys/fs/cgroup/job/run/memory.max", "max\n");
  system.put("/sys/fs/cgroup/job/memory.max", "1000\n");
  system.put("/sys/fs/cgroup/job/memory.current", "700\n");
  system.put("/sys/fs/cgroup/job/memory.stat", "anon 100\nfile 600\ninactive_file 400\nactive_file 150\n");
  EXPECT_EQ(limit(1).by, "/sys/fs/cgroup/job/memory.max");
  EXPECT_EQ(limit(1).left(), 850) << "files can be read again";
  system.put("/proc/self/limits", "Max address space   2147483648   unlimited   bytes\n");
  EXPECT_EQ(limit(2).left(), int64_t{1} << 30);
  EXPECT_EQ(limit(2).of, Limit::Of::process);
  system.put("/proc/self/limits", "Max data size   1073741824   unlimited   bytes\n");
  EXPECT_EQ(limit(2).left(), int64_t{1} << 29) << "the half is taken";
  system.put("/proc/sys/vm/overcommit_memory", "1\n");
  EXPECT_EQ(memory_limits(system.root()).size(), 3u);
  system.put("/proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_EQ(limit(2).by, "/proc/meminfo: CommitLimit");
  EXPECT_EQ(limit(2).left(), int64_t{1} << 30);
}

TEST(Memory, of_groups_of_the_first_version_is_limited_too) {
  const MadeUpSystem system;
  system.by_controller();
  system.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  system.put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
  system.put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3000\n");
  system.put("/sys/fs/cgroup/memory/job/memory.stat",
             "inactive_file 1\ntotal_inactive_file 500\ntotal_active_file 0\n");
  ASSERT_EQ(memory_limits(system.root()).size(), 2u);
  EXPECT_EQ(memory_limits(system.root())[1].left(), 2500);
}

TEST(Limits, of_this_very_system_can_be_read) {
  EXPECT_FALSE(memory_limits().empty());
  EXPECT_FALSE(thread_limits(int64_t{1} << 40).empty());
  EXPECT_GE(usable_cores(), 1);
  EXPECT_NO_THROW(expect_threads({}, {}));
}

}  // namespace
}  // namespace plait::launch
