// Replicas compute the same numbers in memory of their own: a kernel gives the same bits wherever its operands lie.
// Small pieces of the heap lie side by side, so what a kernel allocates may be a neighbour of what it is given.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "kernels/cpu/gate.h"

namespace plait::kernels {
namespace {

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  const at::Tensor t = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < t.numel(); ++i) t.data_ptr<double>()[i] = normal(seed, static_cast<uint64_t>(i));
  return t;
}

TEST(Memory, changes_no_bit_of_a_gates_gradient) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const at::Tensor logits = random({1, 4}, seed), dpsum = random({4}, seed + 1000), dzsum = random({}, seed + 2000);
    const at::Tensor far = at::empty({64, 4}, at::kDouble).narrow(0, 32, 1);
    gate_stats_grad(logits, {}, {{dpsum, dzsum}}, far);
    std::vector<std::vector<double>> pieces(16, std::vector<double>(4));
    for (size_t i = 1; i + 1 < pieces.size(); ++i) {
      std::vector<double>().swap(pieces[i - 1]);  // for the kernel to take
      const at::Tensor close = at::from_blob(pieces[i].data(), {1, 4}, at::kDouble);
      gate_stats_grad(logits, {}, {{dpsum, dzsum}}, close);
      ASSERT_TRUE(close.equal(far)) << "seed " << seed << ", piece " << i;
    }
  }
}

}  // namespace
}  // namespace plait::kernels
