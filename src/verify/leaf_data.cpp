#include "verify/leaf_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/random.h"

namespace plait {
namespace {

constexpr int64_t kAnyId = 1 << 16;  // of ids that are only hashed

std::vector<int64_t> global_shape(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.dims) shape.push_back(dim.size);
  return shape;
}

// Whether the results of an op are its operand's integers, held or cut otherwise.
bool carries(const Op& op) {
  return as<Move>(op) || as<Split>(op) || as<Concat>(op) || as<Dup>(op) || as<Pick>(op) || as<Unflatten>(op) ||
         as<Flatten>(op);
}

bool reads_mask(const Op& op, size_t operand) {
  if (as<NoisyStats>(op) || as<NoisyStatsGrad>(op)) return operand == 3;
  return operand == 1 && (as<Route>(op) || as<HashRoute>(op) || as<GateStats>(op) || as<GateStatsGrad>(op));
}

bool reads_key(const Step& step, size_t operand) {
  if (as<Jitter>(step.op) || as<NoiseGrad>(step.op)) return operand == 1;
  if (as<Noise>(step.op)) return operand == 2;
  const Route* route = as<Route>(step.op);
  return route && route->draws() && operand + 1 == step.in.size();
}

}  // namespace

LeafData::LeafData(const Schedule& schedule, uint64_t seed) : schedule_(schedule), seed_(seed) {
  const Types types = check(schedule);
  for (const Leaf& leaf : schedule.leaves) {
    const std::string& name = schedule.names[leaf.value];
    if (leaf.type.role != Role::plain)
      input_error("leaf %{}: tables and places are made by the list, from a count or arrange", name);
    if (leaf.type.jagged_index() >= 0)
      input_error("leaf %{}: has rows, whose number is known only when the list runs: make them by an encode", name);
    if (leaf.type.dtype == Dtype::integer)
      integers_[leaf.value] = integers_of(types, leaf);
    else
      expect_real_readers(types, leaf);
  }
}

namespace {

// A step that reads a leaf, or what a leaf became on the way there.
struct Reader {
  const Step* step;
  size_t operand;
};

std::vector<Reader> readers_of(const Schedule& s, ValueId leaf) {
  std::vector<bool> same(s.names.size(), false);
  same[leaf] = true;
  std::vector<Reader> readers;
  for (const Step& step : s.steps)
    for (size_t i = 0; i < step.in.size(); ++i) {
      if (!same[step.in[i]]) continue;
      if (!carries(step.op))
        readers.push_back({&step, i});
      else if (step.in.size() == step.out.size())
        same[step.out[i]] = true;
      else
        for (ValueId v : step.out) same[v] = true;
    }
  return readers;
}

}  // namespace

LeafData::Integers LeafData::integers_of(const Types& types, const Leaf& leaf) const {
  Integers all;
  for (const auto& [step, operand] : readers_of(schedule_, leaf.value)) {
    const std::optional<Integers> read = taken(types, *step, operand);
    if (!read)
      input_error("%{}, which {} -> %{} reads: nothing says which integers it may hold",
                  schedule_.names[step->in[operand]], schedule_.title(*step), schedule_.names[step->out.front()]);
    all = {std::max(all.first, read->first), std::min(all.end, read->end)};
  }
  if (all.first >= all.end)
    input_error("leaf %{}: no integers are what all its readers take", schedule_.names[leaf.value]);
  return all;
}

void LeafData::expect_real_readers(const Types& types, const Leaf& leaf) const {
  for (const auto& [step, operand] : readers_of(schedule_, leaf.value))
    if (taken(types, *step, operand))
      input_error("leaf %{}: {} -> %{} reads it as integers: let its type be int", schedule_.names[leaf.value],
                  schedule_.title(*step), schedule_.names[step->out.front()]);
}

std::optional<LeafData::Integers> LeafData::taken(const Types& types, const Step& step, size_t operand) const {
  if (as<Embed>(step.op) && operand == 1) return Integers{0, types[step.in[0]].find("V")->size};
  if (const EmbedGrad* grad = as<EmbedGrad>(step.op); grad && operand == 1) return Integers{0, grad->vocab.size};
  if ((as<ExpSumTarget>(step.op) || as<ExpSumTargetGrad>(step.op)) && operand == 2)
    return Integers{0, types[step.in[0]].dims.back().size};
  if (as<HashRoute>(step.op) && operand == 0) return Integers{0, kAnyId};
  if (reads_mask(step.op, operand) || reads_key(step, operand)) return Integers{1, 2};
  return std::nullopt;
}

double LeafData::deviation(const Leaf& leaf) const {
  const bool matrix = leaf.kind == LeafKind::parameter && leaf.type.dims.size() > 1;
  return matrix ? 1 / std::sqrt(static_cast<double>(leaf.type.dims.back().size)) : 1;
}

at::Tensor LeafData::whole(const std::string& name, int micro) const {
  const Leaf& leaf = *schedule_.leaf(schedule_.find(name));
  const std::vector<int64_t> shape = global_shape(leaf.type);
  const uint64_t key = random_key(seed_, micro ? fmt::format("{}#{}", name, micro) : name);
  if (const auto integers = integers_.find(leaf.value); integers != integers_.end()) {
    const auto [first, end] = integers->second;
    const at::Tensor x = at::empty(shape, at::kLong);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.mutable_data_ptr<int64_t>()[i] =
          first + static_cast<int64_t>(uniform_below(key, i, static_cast<uint64_t>(end - first)));
    return x;
  }
  if (leaf.kind == LeafKind::state) return at::zeros(shape, at::kDouble);
  if (leaf.kind == LeafKind::scalar || leaf.kind == LeafKind::seed) return at::full(shape, 1, at::kDouble);
  const at::Tensor x = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < x.numel(); ++i) x.mutable_data_ptr<double>()[i] = deviation(leaf) * normal(key, i);
  return x;
}

}  // namespace plait
