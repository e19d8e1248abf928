#include "kernels/cpu/embed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "kernels/testing/oracle.h"

namespace plait::kernels {
namespace {

const at::Tensor& ids() {
  static const at::Tensor ids = integers({7}, {4, 9, 6, 4, 0, 7, 4});
  return ids;
}

TEST(Embed, looks_up_the_ids_it_holds_and_gives_zeros_for_others) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor table = random({4, 6}, dtype), y = stale({7, 6}, dtype);
    embed(table, ids(), 4, y);
    for (int64_t t = 0; t < 7; ++t) {
      int64_t id = values(ids())[t];
      expect_same_bits(y[t], id >= 4 && id < 8 ? table[id - 4] : at::zeros({6}, dtype));
    }
  }
}

TEST(Embed, the_slices_of_a_vocabulary_add_up_to_the_whole_lookup) {
  at::Tensor table = random({10, 6}, at::kDouble), whole = stale({7, 6}, at::kDouble);
  at::Tensor low = stale({7, 6}, at::kDouble), high = stale({7, 6}, at::kDouble);
  embed(table, ids(), 0, whole);
  embed(table.slice(0, 0, 5), ids(), 0, low);
  embed(table.slice(0, 5, 10), ids(), 5, high);
  expect_same_bits(low.add(high), whole);
}

TEST(Embed, gradient_is_the_transpose_of_the_lookup) {
  at::Tensor table = random({4, 200}, at::kDouble, 1), w = random({7, 200}, at::kDouble, 2);
  at::Tensor y = stale({7, 200}, at::kDouble);
  embed(table, ids(), 4, y);
  with_threads([&](int) {
    at::Tensor dtable = stale({4, 200}, at::kDouble);
    embed_grad(w, ids(), 4, dtable);
    EXPECT_NEAR(inner(y, w), inner(table, dtable), 1e-10);
    expect_close(dtable[0], w[0].add(w[3]).add(w[6]), 1e-14);
    EXPECT_TRUE(dtable[1].eq(0).all().item<bool>());
  });
}

TEST(Embed, works_without_tokens) {
  at::Tensor none = at::empty({0}, at::kLong), dtable = stale({4, 3}, at::kFloat);
  embed(random({4, 3}, at::kFloat), none, 0, at::empty({0, 3}));
  embed_grad(at::empty({0, 3}), none, 0, dtable);
  EXPECT_TRUE(dtable.eq(0).all().item<bool>());
  EXPECT_THROW(embed(random({4, 3}, at::kFloat), ids(), 0, at::empty({7, 4})), ContractError);
}

}  // namespace
}  // namespace plait::kernels
