// What goes wrong on one rank ends all ranks, soon, with one message that says where and why.
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>
#include <thread>

#include "base/testing/few_addresses.h"
#include "wire/local/run.h"
#include "wire/local/world.h"
#include "wire/ranks.h"

namespace plait::wire {
namespace {

RankOptions options(int ranks, double timeout) {
  return {.ranks = ranks, .timeout = Seconds(timeout), .name = [](int rank) {
            return fmt::format("rank {} (tp {}, dp {})", rank, rank % 2, rank / 2);
          }};
}

at::Tensor zeros(int64_t size) { return at::zeros({size}, at::kFloat); }

// The message run_ranks ends with; fails the test when it ends without one.
template <class Error = RankFailure>
std::string failure_of(const RankOptions& options, std::function<void(int, World&)> body) {
  try {
    run_ranks(options, std::move(body));
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(RunRanks, ends_all_ranks_when_one_throws_and_names_it) {
  const auto start = std::chrono::steady_clock::now();
  const auto message = failure_of(options(4, 60), [](int rank, World& world) {
    const auto group = world.group(rank, {0, 1, 2, 3});
    group->barrier();
    if (rank == 3) throw std::runtime_error("no experts left");
    group->all_reduce({{zeros(4)}});
    ADD_FAILURE() << "rank " << rank << " went on";
  });
  EXPECT_EQ(message, "rank 3 (tp 1, dp 1): no experts left");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // the deadline was 60 s
}

TEST(RunRanks, ends_ranks_that_wait_in_another_group) {
  const auto message = failure_of(options(4, 60), [](int rank, World& world) {
    if (rank == 0) throw std::runtime_error("early");
    if (rank == 1) return;
    world.group(rank, {2, 3})->barrier();
    world.group(rank, {1, 2, 3})->barrier();
  });
  EXPECT_EQ(message, "rank 0 (tp 0, dp 0): early");
}

TEST(RunRanks, keeps_an_input_error_as_it_was) {
  const auto message = failure_of<InputError>(options(2, 60), [](int rank, World& world) {
    if (rank == 1) input_error("data.txt: 3 bytes");
    world.group(rank, {0, 1})->barrier();
  });
  EXPECT_EQ(message, "data.txt: 3 bytes");
}

TEST(RunRanks, leaves_behind_a_rank_that_does_not_come_back) {
  const auto told = std::make_shared<std::latch>(1), ended = std::make_shared<std::latch>(1);
  const auto message = failure_of(options(2, 0.1), [=](int rank, World&) {
    if (rank == 1) throw std::runtime_error("broken");
    told->wait();
    ended->count_down();
  });
  EXPECT_EQ(message, "rank 1 (tp 1, dp 0): broken; rank 0 (tp 0, dp 0) has not ended");
  told->count_down();
  ended->wait();  // within this test
}

TEST(RunRanks, gives_every_rank_its_threads_and_the_caller_its_own_back) {
  const int before = at::get_num_threads();
  run_ranks({.ranks = 3, .threads = 2}, [](int, World&) { EXPECT_EQ(at::get_num_threads(), 2); });
  EXPECT_EQ(at::get_num_threads(), before);
  std::thread([&] { EXPECT_EQ(at::get_num_threads(), before); }).join();
}

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(LocalWorld, outlives_a_group_that_could_not_be_made) {
  LocalWorld world({.ranks = 1});
  EXPECT_THROW(world.group(0, first_ranks(65536)), ContractError);
  world.fail();
  EXPECT_THROW(world.group(0, first_ranks(65536)), ContractError);
  EXPECT_NO_THROW(world.group(0, first_ranks(65535)));
}

TEST(RunRanks, tells_what_a_rank_threw_that_made_too_large_a_group) {
  const auto message = failure_of(options(2, 60), [](int rank, World& world) {
    if (rank == 1) world.group(rank, first_ranks(65536));
    world.group(rank, {0, 1})->barrier();
  });
  EXPECT_NE(message.find("rank 1 (tp 1, dp 0): a local group has at most 65535 members"), std::string::npos) << message;
}

TEST(RunRanks, ends_those_that_started_when_the_system_has_no_thread_for_the_next) {
  const auto run = [] {
    try {
      run_threads(options(200, 60), [](int rank, World& world) { world.group(rank, {rank, 199})->barrier(); });
    } catch (const InputError& error) {
      return std::string(error.what()).find("of the 200 threads of ranks (") != std::string::npos ? 0 : 1;
    }
    return 2;
  };
  EXPECT_EQ(code_with_addresses(int64_t{80} << 20, run), 0);
}

TEST(RunRanks, refuses_more_threads_than_the_system_starts_before_it_starts_any) {
  std::atomic<int> started = 0;
  const RankOptions many{.ranks = 1000, .threads = 1'000'000'000};
  EXPECT_NE(failure_of<InputError>(many, [&](int, World&) { ++started; }).find("need 1000000000000 threads"),
            std::string::npos);
  EXPECT_EQ(started, 0);
}

TEST(Deadline, names_the_collective_its_group_and_who_has_not_arrived) {
  const auto message = failure_of(options(3, 1.5), [](int rank, World& world) {
    if (rank == 1) return;
    const auto group = world.group(rank, {0, 2});
    for (int i = 0; i < 4; ++i) group->all_reduce({{zeros(5)}});
    if (rank == 0) group->all_gather(zeros(1), zeros(2));
  });
  EXPECT_EQ(message,
            "rank 0 (tp 0, dp 0): all_gather 5 of ranks 0, 2 waited 1.5 s at rank 0 (tp 0, dp 0): "
            "rank 2 (tp 0, dp 1) has not arrived (in no collective; its last here was 4)");
}

TEST(Deadline, tells_where_the_absent_rank_waits_instead) {
  const auto message = failure_of(options(3, 1.5), [](int rank, World& world) {
    // Everyone waits for someone who waits elsewhere: a cycle of crossed collectives.
    if (rank == 0) world.group(rank, {0, 1})->barrier();
    if (rank == 1) world.group(rank, {1, 2})->barrier();
    if (rank == 2) world.group(rank, {0, 2})->barrier();
  });
  EXPECT_NE(message.find("has not arrived (waits in barrier 1 of ranks "), std::string::npos) << message;
}

TEST(Mismatch, names_both_calls) {
  const auto message = failure_of(options(2, 60), [](int rank, World& world) {
    const auto group = world.group(rank, {0, 1});
    if (rank == 0) group->all_reduce({{zeros(6)}});
    if (rank == 1) group->all_gather(zeros(2), zeros(4));
  });
  EXPECT_NE(message.find("collective 1 of ranks 0, 1: rank 0 (tp 0, dp 0) calls all_reduce of 24 bytes, "
                         "rank 1 (tp 1, dp 0) calls all_gather of 8 bytes"),
            std::string::npos)
      << message;
}

TEST(Mismatch, is_found_in_sizes_types_roots_and_rows) {
  using Call = std::function<void(Group&)>;
  const auto mismatch = [](const Call& first, const Call& second) {
    return failure_of(options(2, 60), [&](int rank, World& world) {
      const auto group = world.group(rank, {0, 1});
      group->barrier();
      (rank == 0 ? first : second)(*group);
      group->barrier();
      ADD_FAILURE() << "went on";
    });
  };
  const auto reduce = [](at::Tensor value) { return [=](Group& group) { group.all_reduce({{value}}); }; };
  const auto from = [](int root) { return [=](Group& group) { group.broadcast(zeros(3), root); }; };
  EXPECT_NE(mismatch(reduce(zeros(10)), reduce(zeros(11))).find("40 bytes"), std::string::npos);
  EXPECT_NE(mismatch(reduce(zeros(5000)), reduce(zeros(7000))).find("28000 bytes"), std::string::npos);
  EXPECT_NE(mismatch(reduce(zeros(2)), reduce(at::zeros({1}, at::kDouble))).find("types"), std::string::npos);
  EXPECT_NE(mismatch(from(0), from(1)).find("[12, 6, 1]"), std::string::npos);
  const auto rows = [](int64_t received) {
    return [=](Group& group) {
      group.all_to_all(zeros(4), zeros(2 + received), std::vector<int64_t>{2, 2}, std::vector<int64_t>{2, received});
    };
  };
  EXPECT_NE(mismatch(rows(3), rows(2)).find("rank 1 (tp 1, dp 0) sends 2 rows to rank 0 (tp 0, dp 0), which expects 3"),
            std::string::npos);
}

TEST(Contracts, refuse_wrong_arguments_before_anything_is_sent) {
  const auto group = alone(0);
  const auto x = zeros(4);
  EXPECT_THROW(group->all_reduce({{at::zeros({4}, at::kInt)}}), ContractError);
  EXPECT_THROW(group->all_reduce({{at::zeros({4, 3}, at::kFloat).t()}}), ContractError);
  EXPECT_THROW(group->all_gather(x, zeros(5)), ContractError);
  EXPECT_THROW(group->all_gather(x, at::zeros({4}, at::kDouble)), ContractError);
  EXPECT_THROW(group->reduce_scatter(x, zeros(3)), ContractError);
  EXPECT_THROW(group->all_to_all(x, x, std::vector<int64_t>{3}, std::vector<int64_t>{4}), ContractError);
  EXPECT_THROW(group->all_to_all(x, zeros(4), std::vector<int64_t>{2, 2}, std::vector<int64_t>{4}), ContractError);
  EXPECT_THROW(group->broadcast(x, 1), ContractError);
}

TEST(Failure, never_lets_a_member_free_memory_that_another_still_reads) {
  // Rank 2 fails while the two others are in the middle of large copies; under a sanitizer a freed buffer would show.
  for (int repeat = 0; repeat < 20; ++repeat) {
    failure_of(options(3, 60), [&](int rank, World& world) {
      const auto pair = rank < 2 ? world.group(rank, {0, 1}) : nullptr;
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(200 * repeat));
        throw std::runtime_error("now");
      }
      for (;;) pair->all_reduce({{zeros(300'000)}});
    });
  }
}

}  // namespace
}  // namespace plait::wire
