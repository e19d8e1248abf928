// Who a process is by the environments that launchers make.
#include "launch/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

Launch launch_in(const std::map<std::string, std::string>& environment) {
  return launch_of([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, without_a_launcher_there_is_none) {
  const Launch none = launch_in({{"SLURM_STEP_NUM_TASKS", "4"}});  // srun without MPI
  EXPECT_FALSE(none.launched());
  EXPECT_TRUE(none.first());
}

TEST(Launch, reads_what_each_launcher_tells) {
  const Launch open_mpi =
      launch_in({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  EXPECT_EQ(open_mpi.ranks, 8);
  EXPECT_EQ(open_mpi.rank, 3);
  EXPECT_EQ(open_mpi.ranks_per_node, 4);
  EXPECT_FALSE(open_mpi.first());
  const Launch mpich = launch_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(mpich.ranks, 2);
  EXPECT_TRUE(mpich.first());
  EXPECT_EQ(mpich.ranks_per_node, 0);
  const Launch slurm =
      launch_in({{"PMIX_RANK", "6"}, {"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}});
  EXPECT_EQ(slurm.ranks, 7);
  EXPECT_EQ(slurm.rank, 6);
  EXPECT_EQ(slurm.ranks_per_node, 2);
}

TEST(Launch, of_one_rank_is_one_too) { EXPECT_TRUE(launch_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).launched()); }

TEST(Launch, of_another_number_of_ranks_than_are_needed_is_refused_with_both) {
  const Launch two{.ranks = 2};
  EXPECT_EQ(refusal<InputError>([&] { two.expect_ranks(4); }),
            "2 ranks started, 4 needed: start 4 (mpirun -n 4), or change mesh.tp, mesh.ep or mesh.dp");
  EXPECT_NO_THROW(two.expect_ranks(2));
  EXPECT_NO_THROW(two.expect_ranks(1)) << "each runs it for itself";
  EXPECT_NO_THROW(Launch().expect_ranks(4));
}

TEST(Launch, tells_which_ranks_share_a_node_and_a_process) {
  const launch::RanksHere threads = Launch().ranks_here(8),
                          processes = Launch{.ranks = 8, .ranks_per_node = 4}.ranks_here(8);
  EXPECT_EQ(threads.of_node, 8);
  EXPECT_EQ(threads.of_process, 8);
  EXPECT_EQ(processes.of_node, 4);
  EXPECT_EQ(processes.of_process, 1);
  EXPECT_EQ(Launch{.ranks = 8}.ranks_here(8).of_node, 1) << "nobody told";
}

}  // namespace
}  // namespace plait
