#include "kernels/cpu/dispatch.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

// Six tokens in two cells, three experts, two routes each; token 2 is padding, token 3 lost its second route.
Placed routes() {
  return {.idx_TK = integers({6, 2}, {2, 0, 0, 2, -1, -1, 2, 1, 0, 2, 2, 0}),
          .slot_TK = integers({6, 2}, {0, 0, 1, 1, -1, -1, 0, -1, 0, 1, 2, 1})};
}

at::Tensor rows_of_routes() {
  RowCounts counts{.table = stale({1, 3, 2}, at::kLong), .rows_TK = {stale({6, 2}, at::kLong)}};
  count_rows(routes(), counts);
  return counts.rows_TK[0];
}

TEST(Dispatch, counts_the_routes_of_every_cell_and_sorts_them_by_expert_cell_and_token) {
  RowCounts counts{.table = stale({1, 3, 2}, at::kLong), .rows_TK = {stale({6, 2}, at::kLong)}};
  count_rows(routes(), counts);
  EXPECT_EQ(values(counts.table), (std::vector<int64_t>{2, 2, 0, 0, 2, 3}));
  EXPECT_EQ(values(counts.rows_TK[0]), (std::vector<int64_t>{4, 0, 1, 5, -1, -1, 6, -1, 2, 7, 8, 3}));
}

TEST(Dispatch, gives_each_chunk_of_a_cells_tokens_a_buffer_of_its_own) {
  RowCounts counts{.table = stale({3, 3, 2}, at::kLong),
                   .rows_TK = {stale({6, 2}, at::kLong), stale({6, 2}, at::kLong), stale({6, 2}, at::kLong)}};
  count_rows(routes(), counts);
  EXPECT_EQ(values(counts.table), (std::vector<int64_t>{1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values(counts.rows_TK[0]), (std::vector<int64_t>{1, 0, -1, -1, -1, -1, 2, -1, -1, -1, -1, -1}));
  EXPECT_EQ(values(counts.rows_TK[1]), (std::vector<int64_t>{-1, -1, 0, 2, -1, -1, -1, -1, 1, 3, -1, -1}));
  EXPECT_EQ(values(counts.rows_TK[2]), (std::vector<int64_t>{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 0}));
}

TEST(Dispatch, lists_the_nodes_of_a_token_once_each) {
  const Placed routes{.idx_TK = integers({4, 3}, {0, 1, 5, 5, 4, 0, 2, -1, 3, -1, -1, -1}),
                      .slot_TK = integers({4, 3}, {0, 1, 0, -1, 2, 0, 0, -1, 0, -1, -1, -1})};
  const NodeRoutes by_node{stale({4, 2}, at::kLong), stale({4, 2}, at::kLong), stale({4, 3}, at::kLong)};
  routes_by_node(routes, 4, by_node);
  EXPECT_EQ(values(by_node.node_TN), (std::vector<int64_t>{0, 1, 1, 0, 0, -1, -1, -1}));
  EXPECT_EQ(values(by_node.slot_TN), (std::vector<int64_t>{0, 0, 0, 0, 0, -1, -1, -1}));
  EXPECT_EQ(values(by_node.kept_TK), (std::vector<int64_t>{0, 1, 5, -1, 4, 0, 2, -1, 3, -1, -1, -1}));
  EXPECT_THROW(routes_by_node(routes, 1, by_node), ContractError);  // three nodes, places for two
}

TEST(Dispatch, counts_what_arrived_for_the_experts_of_this_node) {
  // Experts 4 to 7 are here; cells of 2, 0 and 1 rows.
  const at::Tensor kept = integers({3, 2}, {5, 0, 4, 5, 7, 4}), rows = integers({1, 3}, {2, 0, 1});
  const at::Tensor table = stale({4, 3}, at::kLong), places = stale({3, 2}, at::kLong);
  count_within({kept, rows, 4}, table, places);
  EXPECT_EQ(values(table), (std::vector<int64_t>{1, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(values(places), (std::vector<int64_t>{2, -1, 0, 3, 4, 1}));
  EXPECT_THROW(count_within({kept, integers({1, 3}, {2, 1, 1}), 4}, table, places), ContractError);
}

TEST(Dispatch, encodes_integers) {
  const at::Tensor row = integers({2, 1}, {1, -1}), out = stale({2, 3}, at::kLong);
  encode(integers({2, 3}, {7, -1, 2, 3, 3, 3}), row, out);
  EXPECT_EQ(values(out), (std::vector<int64_t>{0, 0, 0, 7, -1, 2}));
}

TEST(Dispatch, places_padded_rows_at_their_slots) {
  at::Tensor row = stale({6, 2}, at::kLong);
  place_rows(routes(), {.groups = 2, .experts = 3, .capacity = 3}, row);
  EXPECT_EQ(values(row), (std::vector<int64_t>{12, 0, 1, 13, -1, -1, 15, -1, 3, 16, 17, 4}));
  EXPECT_THROW(place_rows(routes(), {.groups = 2, .experts = 3, .capacity = 2}, row), ContractError);
  EXPECT_THROW(place_rows(routes(), {.groups = 4, .experts = 3, .capacity = 3}, row), ContractError);
}

TEST(Dispatch, brings_every_row_home) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = random({6, 5}, dtype), row = rows_of_routes();
    at::Tensor rows = stale({9, 5}, dtype), y = stale({6, 5}, dtype);
    encode(x, row, rows);
    decode(rows, row, y);
    std::vector<int64_t> routes_of_token = {2, 2, 0, 1, 2, 2};
    for (int64_t t = 0; t < 6; ++t) expect_same_bits(y[t], x[t].mul(routes_of_token[t]));
  }
}

TEST(Dispatch, fills_unused_padded_rows_with_zeros) {
  at::Tensor row = stale({6, 2}, at::kLong), x = random({6, 5}, at::kFloat), rows = stale({18, 5}, at::kFloat);
  place_rows(routes(), {.groups = 2, .experts = 3, .capacity = 3}, row);
  encode(x, row, rows);
  std::vector<int64_t> token(18, -1);
  for (int64_t r = 0; r < 12; ++r)
    if (values(row)[r] >= 0) token[values(row)[r]] = r / 2;
  for (int64_t r = 0; r < 18; ++r)
    expect_same_bits(rows[r], token[r] < 0 ? at::full({5}, 0.f, at::kFloat) : x[token[r]]);
}

TEST(Dispatch, weighted_forms_and_pair_are_the_three_derivatives_of_one_sum) {
  at::Tensor row = rows_of_routes(), x = random({6, 70}, at::kDouble, 1), rows = random({9, 70}, at::kDouble, 2);
  at::Tensor w = random({6, 2}, at::kDouble, 3);
  at::Tensor d_rows = stale({9, 70}, at::kDouble), dx = stale({6, 70}, at::kDouble), dw = stale({6, 2}, at::kDouble);
  encode_weighted(x, w, row, d_rows);
  decode_weighted(rows, w, row, dx);
  pair(x, rows, row, dw);
  double oracle = 0;
  for (int64_t r = 0; r < 12; ++r)
    if (int64_t place = values(row)[r]; place >= 0)
      oracle += w.view({12})[r].item<double>() * inner(x[r / 2], rows[place]);
  EXPECT_NEAR(inner(d_rows, rows), oracle, 1e-12);
  EXPECT_NEAR(inner(dx, x), oracle, 1e-12);
  EXPECT_NEAR(inner(dw, w), oracle, 1e-12);
  EXPECT_EQ(dw[2][0].item<double>(), 0);
  EXPECT_EQ(dw[3][1].item<double>(), 0);
}

TEST(Dispatch, gives_the_same_bits_with_one_and_two_threads) {
  int64_t tokens = 300, width = 130;
  std::vector<int64_t> idx, slot(2 * tokens, 0);
  for (int64_t r = 0; r < 2 * tokens; ++r) idx.push_back(r * 7 % 5);
  RowCounts counts{.table = stale({1, 5, 1}, at::kLong), .rows_TK = {stale({tokens, 2}, at::kLong)}};
  count_rows({.idx_TK = integers({tokens, 2}, idx), .slot_TK = integers({tokens, 2}, slot)}, counts);
  at::Tensor x = random({tokens, width}, at::kFloat, 1), w = random({tokens, 2}, at::kFloat, 2), first;
  with_threads([&](int) {
    at::Tensor rows = stale({2 * tokens, width}, at::kFloat), y = stale({tokens, width}, at::kFloat);
    encode_weighted(x, w, counts.rows_TK[0], rows);
    decode_weighted(rows, w, counts.rows_TK[0], y);
    if (first.defined()) expect_same_bits(y, first);
    first = y;
  });
}

TEST(Dispatch, works_without_rows_and_without_tokens) {
  at::Tensor none = at::empty({0, 2}, at::kLong), x = at::empty({0, 4}), rows = at::empty({0, 4});
  RowCounts counts{.table = stale({1, 3, 2}, at::kLong), .rows_TK = {none}};
  count_rows({.idx_TK = none, .slot_TK = none}, counts);
  EXPECT_EQ(values(counts.table), std::vector<int64_t>(6, 0));
  encode(x, none, rows);
  decode(rows, none, x);
  pair(x, rows, none, at::empty({0, 2}));

  at::Tensor nowhere = integers({2, 2}, {-1, -1, -1, -1}), y = stale({2, 4}, at::kFloat);
  decode(rows, nowhere, y);
  EXPECT_TRUE(y.eq(0).all().item<bool>());
  at::Tensor idle = stale({3, 4}, at::kFloat);
  encode(y, nowhere, idle);
  EXPECT_TRUE(idle.eq(0).all().item<bool>());
}

TEST(Dispatch, refuses_rows_beyond_the_buffer_and_rows_taken_twice) {
  at::Tensor x = random({2, 4}, at::kFloat), rows = random({2, 4}, at::kFloat);
  EXPECT_THROW(encode(x, integers({2, 1}, {0, 2}), rows), ContractError);
  EXPECT_THROW(encode(x, integers({2, 1}, {1, 1}), rows), ContractError);
  EXPECT_THROW(decode(rows, integers({2, 1}, {0, 2}), x), ContractError);
}

}  // namespace
}  // namespace plait::kernels
