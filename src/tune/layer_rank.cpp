#include "tune/layer_rank.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/errors.h"
#include "base/random.h"
#include "checkpoint/parts.h"
#include "run/call.h"
#include "schedule/draws.h"

namespace plait {
namespace {

constexpr int64_t kStepKey = 1;

// What ranks hold parts of as x and dy: rows of normal numbers, drawn as parameters are.
Parameter tokens_like(const std::string& name, const std::vector<Dim>& dims) {
  return {.name = name, .dims = dims, .init = Normal{1}};
}

// [T, D]
at::Tensor random_tokens(const ModelSizes& s, const std::string& name) {
  const Type type{.dims = {{"T", s.tokens()}, {"D", s.width}}};
  return initial_part(tokens_like(name, type.dims), {type.dims, type}, 1, {Mesh(), 0, {}, {}, at::kFloat});
}

at::Tensor random_ids(int64_t tokens) {
  const at::Tensor ids = at::empty({tokens}, at::kLong);
  const uint64_t key = random_key(1, "ids");
  for (int64_t i = 0; i < tokens; ++i)
    ids.data_ptr<int64_t>()[i] = static_cast<int64_t>(uniform_below(key, i, 1 << 16));
  return ids;
}

// [T, E]: what the noisy gate of layer 0 draws.
at::Tensor random_noise(const ModelSizes& sizes) {
  const at::Tensor noise = at::empty({sizes.tokens(), sizes.experts}, at::kFloat);
  const uint64_t key = draw_key(kStepKey, 0, Draw::noise);
  for (int64_t i = 0; i < noise.numel(); ++i)
    noise.mutable_data_ptr<float>()[i] = static_cast<float>(normal(key, static_cast<uint64_t>(i)));
  return noise;
}

Tensors whole_parameters(const ModelSizes& sizes) {
  const Mesh one;
  const MoeLayer layer = build_moe_layer(one, sizes);
  Tensors all;
  for (const Parameter& p : layer.parameters) {
    const Stored stored{p.dims, layer.schedule.leaf(layer.schedule.find(p.name))->type};
    all[p.name] = initial_part(p, stored, 1, {one, 0, {}, {}, at::kFloat});
  }
  return all;
}

}  // namespace

LayerData layer_data(const ModelSizes& sizes) {
  return {whole_parameters(sizes),
          {random_tokens(sizes, "x"), random_tokens(sizes, "dy"), random_ids(sizes.tokens()),
           at::zeros({sizes.tokens()}, at::kLong), random_noise(sizes)}};
}

LayerRank::LayerRank(const MoeLayer& layer, const ModelSizes& sizes, RankContext context, Keep keep)
    : context_(context), executor_(layer.schedule, context, std::move(keep)) {
  bind(layer, sizes);
}

void LayerRank::run() {
  executor_.run([this](const std::string& leaf, int) { return data_.at(leaf); });
}

at::Tensor LayerRank::part(const at::Tensor& whole, ValueId like) const {
  return part_of(whole, executor_.types()[like], where(whole.scalar_type()));
}

at::Tensor LayerRank::random_part(const Parameter& like, const Type& type) const {
  return initial_part(like, {like.dims, type}, 1, where(full_precision(context_.dtype))).to(scalar(type));
}

void LayerRank::bind(const MoeLayer& layer, const ModelSizes& sizes) {
  const Schedule& s = executor_.schedule();
  for (const Leaf& leaf : s.leaves) {
    const std::string& name = s.names[leaf.value];
    if (leaf.kind == LeafKind::parameter)
      executor_.bind(name, random_part(*std::ranges::find(layer.parameters, name, &Parameter::name), leaf.type));
    if (leaf.kind == LeafKind::state)
      executor_.bind(name, at::zeros(local_shape(s.mesh, leaf.type), scalar(leaf.type)));
    if (leaf.kind == LeafKind::data) data_[name] = data(name, leaf.type, sizes);
  }
}

at::Tensor LayerRank::data(const std::string& leaf, const Type& type, const ModelSizes& sizes) const {
  if (leaf == "x" || leaf == "dy") return random_part(tokens_like(leaf, type.dims), type);
  if (leaf == "mask") return at::ones(local_shape(executor_.schedule().mesh, type), at::kLong);
  if (leaf == "inv_tokens") return at::full({}, 1 / static_cast<double>(sizes.tokens()), scalar(type));
  if (leaf == "step_key") return at::full({}, kStepKey, at::kLong);
  if (leaf == "share") return at::ones({}, scalar(type));
  expects(leaf == "ids", "no data for leaf " + leaf);
  return part_of(random_ids(sizes.tokens()), type, where(at::kLong));
}

}  // namespace plait
