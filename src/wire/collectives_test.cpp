// Every collective on 1 to 8 ranks against plain loops over all ranks' inputs, which any rank can compute for itself.
// The ranks are threads; started by mpirun, the same bodies run over MPI, those of as many ranks as were started.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/random.h"
#include "launch/launch.h"
#include "wire/ranks.h"
#include "wire/testing/placed.h"

namespace plait::wire {
namespace {

constexpr int kRanks[] = {1, 2, 3, 4, 8};
constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kLong};
constexpr int64_t kSizes[] = {0, 1, 7, 500, 5001, 100'003};  // on both sides of eager messages

std::vector<int> everyone(int ranks) {
  std::vector<int> all(ranks);
  for (int r = 0; r < ranks; ++r) all[r] = r;
  return all;
}

void on_world(int ranks, const std::function<void(int, World&)>& body) {
  if (!this_launch().launched()) return run_ranks({.ranks = ranks, .timeout = Seconds(60)}, body);
  if (this_launch().ranks != ranks) return;
  for (const int node : {0, 1, 2}) run_ranks({.ranks = ranks, .timeout = Seconds(60), .node = node}, body);
}

// Between processes of one node also with operands that lie in the world's memory, at all members or at some.
void on_ranks(int ranks, const std::function<void(Group&)>& body) {
  on_world(ranks, [&](int rank, World& world) { body(*world.group(rank, everyone(ranks))); });
  if (this_launch().ranks != ranks) return;
  run_ranks({.ranks = ranks, .timeout = Seconds(60)}, [&](int rank, World& world) {
    for (const Placing placing : {Placing::all, Placing::some})
      body(*placed(world.group(rank, everyone(ranks)), world, placing));
  });
}

// Values that do not add up exactly, so that the order of a sum shows in its bits.
template <class T>
T value_of(uint64_t key, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(hash64(key, i) % 1000) - 500;
  } else {
    return static_cast<T>((uniform(key, i) - 0.5) * (i % 3 == 0 ? 1e4 : 1.0));
  }
}

template <class T>
void fill(const at::Tensor& tensor, uint64_t key) {
  T* x = tensor.data_ptr<T>();
  for (int64_t i = 0; i < tensor.numel(); ++i) x[i] = value_of<T>(key, i);
}

at::Tensor filled(int64_t size, at::ScalarType type, uint64_t key) {
  const auto tensor = at::empty({size}, type);
  if (type == at::kFloat) fill<float>(tensor, key);
  if (type == at::kDouble) fill<double>(tensor, key);
  if (type == at::kLong) fill<int64_t>(tensor, key);
  return tensor;
}

// ((x0 + x1) + x2) + ... of the ranks' tensors.
template <class T>
void add(const at::Tensor& sum, const at::Tensor& value) {
  for (int64_t i = 0; i < sum.numel(); ++i) sum.data_ptr<T>()[i] += value.data_ptr<T>()[i];
}

at::Tensor sum_of(int64_t size, at::ScalarType type, const std::vector<uint64_t>& keys) {
  const auto sum = filled(size, type, keys[0]);
  for (size_t r = 1; r < keys.size(); ++r) {
    const auto value = filled(size, type, keys[r]);
    if (type == at::kFloat) add<float>(sum, value);
    if (type == at::kDouble) add<double>(sum, value);
    if (type == at::kLong) add<int64_t>(sum, value);
  }
  return sum;
}

std::vector<uint64_t> keys_of(int ranks, uint64_t salt) {
  std::vector<uint64_t> keys;
  for (int r = 0; r < ranks; ++r) keys.push_back(hash64(salt, r));
  return keys;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() && (a.nbytes() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

TEST(AllReduce, sums_in_the_order_of_the_members_to_the_bit_on_all_ranks) {
  for (const int ranks : kRanks) {
    on_ranks(ranks, [&](Group& group) {
      for (const auto type : kTypes) {
        for (const int64_t size : kSizes) {
          const auto keys = keys_of(ranks, size);
          const auto x = filled(size, type, keys[group.rank()]);
          group.all_reduce({{x}});
          EXPECT_TRUE(same_bits(x, sum_of(size, type, keys))) << ranks << " ranks, " << size << " elements";
        }
      }
    });
  }
}

TEST(AllReduce, of_two_bytes_adds_in_float32_and_rounds_once) {
  const std::vector<uint64_t> keys = {3, 1, 4, 1, 5, 9, 2, 6};
  for (at::ScalarType half : {at::kBFloat16, at::kHalf})
    for (int64_t size : {7, 5001})
      on_ranks(8, [&](Group& group) {
        const auto part = [&](int r) { return filled(size, at::kFloat, keys[r]).to(half); };
        const at::Tensor mine = part(group.rank()), want = part(0).to(at::kFloat);
        for (int r = 1; r < 8; ++r) add<float>(want, part(r).to(at::kFloat));
        group.all_reduce({&mine, 1});
        EXPECT_TRUE(at::equal(mine, want.to(half)));
      });
}

TEST(AllReduce, carries_values_of_several_types_and_sizes_in_one_message) {
  for (const int64_t scale : {1, 4001}) {
    on_ranks(3, [&](Group& group) {
      std::vector<at::Tensor> values, expected;
      for (int v = 0; v < 9; ++v) {
        const auto keys = keys_of(3, 100 + v);
        const int64_t size = (v * 7 % 5) * scale;  // among them empty ones and odd numbers of floats before doubles
        values.push_back(filled(size, kTypes[v % 3], keys[group.rank()]));
        expected.push_back(sum_of(size, kTypes[v % 3], keys));
      }
      group.all_reduce(values);
      for (int v = 0; v < 9; ++v) EXPECT_TRUE(same_bits(values[v], expected[v])) << "value " << v;
    });
  }
}

TEST(AllReduce, carries_more_values_than_a_post_has_room_for) {
  for (const int number : {512, 4096, 4097}) {
    on_ranks(4, [&](Group& group) {
      std::vector<at::Tensor> values;
      for (int v = 0; v < number; ++v) values.push_back(filled(9, kTypes[v % 3], group.rank() + v));
      group.all_reduce(values);
      for (uint64_t v = 0; v < values.size(); ++v)
        EXPECT_TRUE(same_bits(values[v], sum_of(9, kTypes[v % 3], {v, v + 1, v + 2, v + 3})));
    });
  }
}

TEST(AllGather, stacks_the_members_parts_in_order) {
  for (const int ranks : kRanks) {
    on_ranks(ranks, [&](Group& group) {
      for (const int64_t size : kSizes) {
        const auto keys = keys_of(ranks, size);
        const auto out = at::empty({ranks, size}, at::kFloat);
        group.all_gather(filled(size, at::kFloat, keys[group.rank()]), out);
        for (int r = 0; r < ranks; ++r) EXPECT_TRUE(same_bits(out.select(0, r), filled(size, at::kFloat, keys[r])));
      }
    });
  }
}

TEST(AllGather, takes_the_members_own_part_of_the_output_as_input) {
  for (const int64_t size : {5, 5001}) {
    on_ranks(4, [&](Group& group) {
      const auto keys = keys_of(4, size);
      const auto out = at::zeros({4, size}, at::kDouble);
      fill<double>(out.select(0, group.rank()), keys[group.rank()]);
      group.all_gather(out.select(0, group.rank()), out);
      for (int r = 0; r < 4; ++r) EXPECT_TRUE(same_bits(out.select(0, r), filled(size, at::kDouble, keys[r])));
    });
  }
}

TEST(ReduceScatter, gives_each_member_its_part_of_the_sum) {
  for (const int ranks : kRanks) {
    on_ranks(ranks, [&](Group& group) {
      for (const auto type : kTypes) {
        for (const int64_t size : kSizes) {
          const auto keys = keys_of(ranks, size);
          const auto in = filled(size * ranks, type, keys[group.rank()]);
          const auto out = at::empty({size}, type);
          group.reduce_scatter(in.view({ranks, size}), out);
          const auto sum = sum_of(size * ranks, type, keys);
          EXPECT_TRUE(same_bits(out, sum.narrow(0, group.rank() * size, size)));
        }
      }
    });
  }
}

// Rows from rank a to rank b: uneven, among them none; every rank can tell all counts.
int64_t rows_between(int a, int b, int64_t scale) { return (a * 5 + b * 3) % 4 * scale; }

TEST(AllToAll, brings_every_row_home_with_uneven_and_empty_parts) {
  for (const int ranks : kRanks) {
    for (const int64_t scale : {0, 1, 300}) {
      on_ranks(ranks, [&](Group& group) {
        const int me = group.rank();
        std::vector<int64_t> send, receive, sent_marks, expected;
        for (int r = 0; r < ranks; ++r) {
          send.push_back(rows_between(me, r, scale));
          receive.push_back(rows_between(r, me, scale));
          for (int64_t i = 0; i < send[r]; ++i) sent_marks.push_back((me * 100 + r) * 1000 + i);
          for (int64_t i = 0; i < receive[r]; ++i) expected.push_back((r * 100 + me) * 1000 + i);
        }
        const auto rows = static_cast<int64_t>(sent_marks.size());
        const auto marks = at::from_blob(sent_marks.data(), {rows, 1}, at::kLong);
        const auto in = marks.expand({rows, 5}).contiguous();
        const auto out = at::empty({static_cast<int64_t>(expected.size()), 5}, at::kLong);
        group.all_to_all(in, out, send, receive);
        for (size_t i = 0; i < expected.size(); ++i) {
          for (int column = 0; column < 5; ++column) EXPECT_EQ(out.data_ptr<int64_t>()[i * 5 + column], expected[i]);
        }
      });
    }
  }
}

TEST(UnevenRows, are_gathered_and_scattered_by_owner) {
  for (const int ranks : kRanks) {
    for (const int64_t scale : {0, 1, 1500}) {
      on_ranks(ranks, [&](Group& group) {
        std::vector<int64_t> rows;
        for (int r = 0; r < ranks; ++r) rows.push_back((r * 5 + 3) % 4 * scale);  // rank 3 has none
        int64_t before = 0, all = 0;
        for (int r = 0; r < ranks; ++r) {
          if (r < group.rank()) before += rows[r];
          all += rows[r];
        }
        const auto whole = filled(all * 3, at::kDouble, 7).view({all, 3});
        const auto mine = whole.narrow(0, before, rows[group.rank()]).contiguous();
        const auto out = at::empty({all, 3}, at::kDouble);
        group.all_gather_rows(mine, out, rows);
        EXPECT_TRUE(at::equal(out, whole));
        const auto sum = at::empty_like(mine);
        group.reduce_scatter_rows(whole, sum, rows);
        const auto expected = at::zeros_like(mine);
        for (int r = 0; r < ranks; ++r) add<double>(expected, mine);
        EXPECT_TRUE(at::equal(sum, expected));
      });
    }
  }
}

TEST(AllToAll, ends_when_one_member_has_a_large_part_and_the_others_none) {
  on_ranks(4, [](Group& group) {
    const int64_t rows = 10'000;
    const std::vector<int64_t> none(4, 0), send{rows, rows, rows, rows};
    const bool sends = group.rank() == 2;
    const auto in = filled(sends ? 4 * rows : 0, at::kFloat, 9);
    const auto out = at::empty({rows}, at::kFloat);
    group.all_to_all(in, out, sends ? send : none, std::vector<int64_t>{0, 0, rows, 0});
    EXPECT_TRUE(same_bits(out, filled(4 * rows, at::kFloat, 9).narrow(0, group.rank() * rows, rows)));
  });
}

TEST(AllToAll, carries_more_than_two_to_the_31_bytes) {
  on_world(2, [](int me, World& world) {
    const auto group = world.group(me, {0, 1});
    const int64_t rows = (int64_t{1} << 31) + 77;
    const bool sends = me == 1;
    const int64_t marked[] = {
        0, (int64_t{1} << 30) - 1, int64_t{1} << 30, (int64_t{1} << 31) - 1, int64_t{1} << 31, rows - 1};
    const auto in = at::empty({sends ? rows : 0}, at::kByte), out = at::empty({sends ? 0 : rows}, at::kByte);
    for (size_t i = 0; sends && i < std::size(marked); ++i)
      in.data_ptr<uint8_t>()[marked[i]] = static_cast<uint8_t>(40 + i);
    group->all_to_all(in, out, std::vector<int64_t>{sends ? rows : 0, 0}, std::vector<int64_t>{0, sends ? 0 : rows});
    for (size_t i = 0; !sends && i < std::size(marked); ++i)
      EXPECT_EQ(out.data_ptr<uint8_t>()[marked[i]], 40 + i) << marked[i];
  });
}

TEST(AllToAll, brings_home_what_a_matrix_with_empty_rows_and_columns_sends) {
  for (const int empty : {0, 1, 2, 3}) {  // this rank sends nothing and gets nothing
    on_ranks(4, [&](Group& group) {
      const auto rows_of = [&](int from, int to) {
        return from == empty || to == empty ? 0 : int64_t{from} + to * 2000;
      };
      std::vector<int64_t> send, receive;
      int64_t sent = 0, received = 0;
      for (int r = 0; r < 4; ++r) {
        sent += send.emplace_back(rows_of(group.rank(), r));
        received += receive.emplace_back(rows_of(r, group.rank()));
      }
      const auto in = at::zeros({sent}, at::kLong), out = at::zeros({received}, at::kLong);
      in.fill_(group.rank() + 1);
      group.all_to_all(in, out, send, receive);
      int64_t at = 0;
      for (int r = 0; r < 4; ++r)
        for (int64_t i = 0; i < receive[r]; ++i) EXPECT_EQ(out.data_ptr<int64_t>()[at++], r + 1);
    });
  }
}

TEST(Broadcast, copies_the_roots_value) {
  for (const int ranks : kRanks) {
    on_ranks(ranks, [&](Group& group) {
      for (int root = 0; root < ranks; ++root) {
        for (const int64_t size : kSizes) {
          const auto x = filled(size, at::kFloat, group.rank());
          group.broadcast(x, root);
          EXPECT_TRUE(same_bits(x, filled(size, at::kFloat, root)));
        }
      }
    });
  }
}

TEST(Barrier, lets_nobody_pass_before_all_have_come) {
  if (this_launch().launched()) GTEST_SKIP() << "looks at the memory of all ranks";
  for (const int ranks : {2, 4, 8}) {
    std::vector<std::atomic<int>> rounds(ranks);
    on_ranks(ranks, [&](Group& group) {
      for (int round = 1; round <= 50; ++round) {
        rounds[group.rank()] = round;
        group.barrier();
        for (const auto& theirs : rounds) EXPECT_GE(theirs.load(), round);
        group.barrier();
      }
    });
  }
}

TEST(World, keeps_groups_of_the_same_ranks_apart) {
  on_world(2, [](int rank, World& world) {
    const auto first = world.group(rank, {0, 1});
    const auto second = world.group(rank, {0, 1});
    const auto reversed = world.group(rank, {1, 0});
    EXPECT_EQ(reversed->rank(), 1 - rank);
    // The lanes of one rank run side by side: the second group's collective ends while the first one's is open.
    const auto x = filled(3, at::kLong, rank), y = filled(3, at::kLong, 10 + rank);
    std::thread lane([&] { first->all_reduce({{x}}); });
    second->all_reduce({{y}});
    lane.join();
    EXPECT_TRUE(same_bits(x, sum_of(3, at::kLong, {0, 1})));
    EXPECT_TRUE(same_bits(y, sum_of(3, at::kLong, {10, 11})));
  });
}

// One of 200 collectives, drawn from `draw`; every rank draws the same, then dawdles at its own pace.
void random_collective(Group& group, uint64_t draw) {
  const int ranks = group.size(), me = group.rank();
  const int64_t size = hash64(draw, 1) % 2 ? hash64(draw, 2) % 50 : hash64(draw, 2) % 12'000;
  const auto type = kTypes[hash64(draw, 3) % 3];
  const auto keys = keys_of(ranks, draw);
  std::this_thread::sleep_for(std::chrono::microseconds(hash64(draw, 100 + me) % 300));
  const auto mine = filled(size, type, keys[me]);
  switch (hash64(draw, 4) % 4) {
    case 0: {
      group.all_reduce({{mine}});
      EXPECT_TRUE(same_bits(mine, sum_of(size, type, keys)));
      break;
    }
    case 1: {
      const auto out = at::empty({ranks, size}, type);
      group.all_gather(mine, out);
      for (int r = 0; r < ranks; ++r) EXPECT_TRUE(same_bits(out.select(0, r), filled(size, type, keys[r])));
      break;
    }
    case 2: {
      const auto in = filled(size * ranks, type, keys[me]);
      const auto out = at::empty({size}, type);
      group.reduce_scatter(in, out);
      EXPECT_TRUE(same_bits(out, sum_of(size * ranks, type, keys).narrow(0, me * size, size)));
      break;
    }
    default: {
      const int root = static_cast<int>(hash64(draw, 5) % ranks);
      group.broadcast(mine, root);
      EXPECT_TRUE(same_bits(mine, filled(size, type, keys[root])));
    }
  }
}

TEST(Collectives, stay_right_in_random_order_with_random_delays) {
  on_ranks(4, [](Group& group) {
    for (uint64_t i = 0; i < 200; ++i) random_collective(group, hash64(2024, i));
  });
}

TEST(Collectives, of_overlapping_groups_do_not_mix) {
  on_world(4, [](int rank, World& world) {
    const auto row = placed(world.group(rank, rank < 2 ? std::vector{0, 1} : std::vector{2, 3}), world, Placing::some);
    const auto column =
        placed(world.group(rank, rank % 2 ? std::vector{1, 3} : std::vector{0, 2}), world, Placing::all);
    for (uint64_t i = 0; i < 100; ++i) {
      random_collective(*row, hash64(7, i));
      random_collective(*column, hash64(8, i));
    }
  });
}

TEST(Alone, needs_no_other_member) {
  const auto group = alone(5);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->ranks(), std::vector{5});
  const auto x = filled(10, at::kFloat, 1), out = at::zeros({1, 10}, at::kFloat), rows = at::zeros({10}, at::kFloat);
  group->all_reduce({{x}});
  group->broadcast(x, 0);
  group->barrier();
  group->all_gather(x, out);
  group->all_to_all(x, rows, std::vector<int64_t>{10}, std::vector<int64_t>{10});
  EXPECT_TRUE(same_bits(out, x));
  EXPECT_TRUE(same_bits(rows, x));
  EXPECT_TRUE(same_bits(x, filled(10, at::kFloat, 1)));
  group->reduce_scatter(filled(10, at::kFloat, 2).view({1, 10}), rows);
  EXPECT_TRUE(same_bits(rows, filled(10, at::kFloat, 2)));
}

TEST(Alone, is_what_a_world_gives_for_a_list_of_one) {
  // Both ranks would wait for ever if the group of one met anyone: nobody else calls.
  on_world(2, [](int rank, World& world) {
    if (rank == 0) world.group(0, {0})->barrier();
  });
}

}  // namespace
}  // namespace plait::wire
