#include "one_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "base/random.h"
#include "checkpoint/gathered.h"
#include "checkpoint/parts.h"
#include "wire/ranks.h"

namespace plait {
namespace {

int64_t real_tokens(const Tokens& tokens) { return tokens.mask.sum().item<int64_t>(); }

int64_t real_tokens(const std::vector<Tokens>& micro) {
  int64_t n = 0;
  for (const Tokens& tokens : micro) n += real_tokens(tokens);
  return n;
}

// A data leaf, whole.
at::Tensor whole_leaf(const StepCase& c, const std::string& leaf, int micro) {
  const Tokens& tokens = c.micro[micro];
  const auto batch = static_cast<double>(real_tokens(c.micro)), own = static_cast<double>(real_tokens(tokens));
  if (leaf == "ids") return tokens.ids;
  if (leaf == "targets") return tokens.targets;
  if (leaf == "positions") return at::arange(c.sizes.tokens(), at::kLong).remainder(c.sizes.positions);
  if (leaf == "mask") return tokens.mask;
  if (leaf == "weight") return tokens.mask.to(c.dtype).div(batch);
  if (leaf == "inv_tokens") return at::full({}, 1 / own, c.dtype);
  expects(leaf == "share", "a data leaf");
  return at::full({}, own / batch, c.dtype);
}

// What one rank is left with.
struct RankOutcome {
  std::vector<double> nll;
  double aux = 0, norm = 0;
  std::map<std::string, at::Tensor> gradients, parameters;
  std::vector<std::map<std::string, at::Tensor>> after;  // parameters by step
  std::vector<std::vector<double>> chosen, kept;
  int64_t expert_rows = 0;
};

class RankRun {
 public:
  RankRun(const StepCase& c, const TrainingStep& step, const Keep& keep, RankContext context)
      : c_(c), step_(step), rank_(context.rank), executor_(step.schedule, context, keep) {
    for (const Leaf& leaf : step.schedule.leaves) {
      const std::string& name = step.schedule.names[leaf.value];
      if (leaf.kind == LeafKind::parameter)
        executor_.bind(name, part_of(c.parameters.at(name), leaf.type, where(c.dtype)));
      if (leaf.kind == LeafKind::state)
        executor_.bind(name, at::zeros(local_shape(step.schedule.mesh, leaf.type), c.dtype));
    }
  }

  RankOutcome run() {
    for (int n = 0; n < c_.steps; ++n) {
      executor_.run([&](const std::string& leaf, int micro) { return feed(leaf, micro, n); });
      out_.nll.push_back(executor_.scalar(step_.nll));
      if (n == 0) note_first();
      for (const Parameter& p : step_.parameters) out_.parameters[p.name] = executor_.bound(p.name).clone();
      out_.after.push_back(out_.parameters);
    }
    return out_;
  }

 private:
  StepTypes where(at::ScalarType dtype) const { return {step_.schedule.mesh, rank_, {}, {}, dtype}; }

  at::Tensor feed(const std::string& leaf, int micro, int step) const {
    if (leaf == "lr") return at::full({}, c_.lr, at::kDouble);
    if (leaf == "step") return at::full({}, step + 1.0, at::kDouble);
    const at::Tensor whole = whole_leaf(c_, leaf, micro);
    return part_of(whole, step_.schedule.leaf(step_.schedule.find(leaf))->type, where(whole.scalar_type()));
  }

  std::vector<double> numbers(ValueId v) const {
    const at::Tensor t = executor_.value(v).to(at::kDouble).contiguous();
    return {t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel()};
  }

  void note_first() {
    out_.aux = step_.aux < 0 ? 0 : executor_.scalar(step_.aux);
    out_.norm = executor_.scalar(step_.norm);
    for (const auto& [name, v] : step_.gradients) out_.gradients[name] = executor_.value(v).clone();
    for (ValueId v : step_.chosen) out_.chosen.push_back(numbers(v));
    for (ValueId v : step_.kept) out_.kept.push_back(numbers(v));
    const ValueId up = step_.schedule.find(fmt::format("l{}.expert_up", c_.sizes.layers - 1));
    if (up >= 0) out_.expert_rows = executor_.value(up).size(0);
  }

  const StepCase& c_;
  const TrainingStep& step_;
  int rank_;
  Executor executor_;
  RankOutcome out_;
};

// Names of the parameters whose parts differ between ranks that hold the same part.
std::vector<std::string> differing(const Schedule& s, const std::vector<RankOutcome>& ranks, int step) {
  std::vector<std::string> names;
  for (const Leaf& leaf : s.leaves) {
    if (leaf.kind != LeafKind::parameter) continue;
    const std::string& name = s.names[leaf.value];
    std::map<std::vector<int64_t>, at::Tensor> first;
    for (size_t r = 0; r < ranks.size(); ++r) {
      std::vector<int64_t> place;
      for (const Dim& dim : leaf.type.dims) place.push_back(local_range(s.mesh, dim, static_cast<int>(r)).first);
      const at::Tensor& part = ranks[r].after[step].at(name);
      if (!part.equal(first.try_emplace(place, part).first->second)) names.push_back(name);
    }
  }
  return names;
}

StepOutcome together(const StepCase& c, const TrainingStep& step, const Types& types,
                     const std::vector<RankOutcome>& ranks) {
  const Schedule& s = step.schedule;
  const RankOutcome& r0 = ranks[0];
  StepOutcome out{.nll = r0.nll, .aux = r0.aux, .norm = r0.norm, .chosen = r0.chosen, .kept = r0.kept};
  const auto whole = [&](ValueId v, auto part) {
    std::vector<at::Tensor> parts;
    for (const RankOutcome& r : ranks) parts.push_back(part(r));
    return gathered(s.mesh, types[v], parts);
  };
  for (const Parameter& p : step.parameters) {
    out.gradients[p.name] =
        whole(step.gradients.at(p.name), [&](const RankOutcome& r) { return r.gradients.at(p.name); });
    out.updated[p.name] = whole(s.find(p.name), [&](const RankOutcome& r) { return r.parameters.at(p.name); });
  }
  for (const RankOutcome& r : ranks) out.expert_rows.push_back(r.expert_rows);
  for (int n = 0; n < c.steps; ++n)
    for (const std::string& name : differing(s, ranks, n))
      out.replicas.push_back(fmt::format("{} after step {}", name, n + 1));
  return out;
}

// What all ranks are left with where they are processes; each tells its own.
std::vector<RankOutcome> shared(RankOutcome mine, wire::Group& everyone) {
  std::vector<RankOutcome> all(static_cast<size_t>(everyone.size()), mine);
  const auto share = [&](auto map_of) {
    for (const auto& [name, tensor] : map_of(mine)) {
      const at::Tensor parts = at::empty({everyone.size(), tensor.numel()}, tensor.options());
      everyone.all_gather(tensor.contiguous(), parts);
      for (int r = 0; r < everyone.size(); ++r) map_of(all[r])[name] = parts[r].view_as(tensor);
    }
  };
  share([](RankOutcome & o) -> auto& { return o.gradients; });
  share([](RankOutcome & o) -> auto& { return o.parameters; });
  for (size_t n = 0; n < mine.after.size(); ++n) share([n](RankOutcome & o) -> auto& { return o.after[n]; });
  const at::Tensor rows = at::full({1}, mine.expert_rows, at::kLong), by_rank = at::empty({everyone.size()}, at::kLong);
  everyone.all_gather(rows, by_rank);
  for (int r = 0; r < everyone.size(); ++r) all[r].expert_rows = by_rank[r].item<int64_t>();
  return all;
}

}  // namespace

StepOutcome run_steps(const StepCase& c) {
  const Mesh mesh(c.mesh);
  const TrainingStep step = build_step(mesh, c.sizes, c.optimizer, {static_cast<int>(c.micro.size())});
  Keep keep;
  for (const auto& [name, v] : step.gradients) keep.values.push_back(v);
  const ValueId up = step.schedule.find(fmt::format("l{}.expert_up", c.sizes.layers - 1));
  if (up >= 0) keep.values.push_back(up);
  std::vector<RankOutcome> ranks(mesh.ranks());
  wire::run_ranks({.ranks = mesh.ranks(), .name = [&](int rank) { return mesh.coordinates(rank); }},
                  [&](int rank, wire::World& world) {
                    RankOutcome mine = RankRun(c, step, keep, {rank, &world, c.dtype}).run();
                    if (world.ranks_here() > 1) {
                      ranks[rank] = std::move(mine);
                      return;
                    }
                    std::vector<int> all(world.size());
                    std::iota(all.begin(), all.end(), 0);
                    ranks = shared(std::move(mine), *world.group(rank, all));
                  });
  return together(c, step, check(step.schedule), ranks);
}

Tensors random_parameters(const ModelSizes& sizes) {
  const Model model = build_model(Mesh{}, sizes);
  Tensors all;
  for (const Leaf& leaf : model.schedule.leaves) {
    if (leaf.kind != LeafKind::parameter) continue;
    const std::string& name = model.schedule.names[leaf.value];
    std::vector<int64_t> shape;
    for (const Dim& dim : leaf.type.dims) shape.push_back(dim.size);
    const at::Tensor t = at::empty(shape, at::kDouble);
    const uint64_t key = random_key(7, name);
    const bool gain = shape.size() == 1;
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data_ptr<double>()[i] = (gain ? 1 : 0) + 0.3 * normal(key, static_cast<uint64_t>(i));
    all[name] = t;
  }
  return all;
}

Tokens random_tokens(const ModelSizes& sizes, uint64_t salt) {
  const at::Tensor text = at::empty({2, sizes.tokens()}, at::kLong);
  const uint64_t key = random_key(salt, "tokens");
  for (int64_t i = 0; i < text.numel(); ++i)
    text.data_ptr<int64_t>()[i] =
        static_cast<int64_t>(uniform_below(key, static_cast<uint64_t>(i), static_cast<uint64_t>(sizes.vocab)));
  return {text[0], text[1], at::ones({sizes.tokens()}, at::kLong)};
}

ModelSizes small_sizes() {
  return {.sequences = 4,
          .positions = 8,
          .vocab = 24,
          .width = 16,
          .layers = 2,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 20,
          .moe_every = 2,
          .experts = 4,
          .top_k = 2,
          .expert_ffn = 12};
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(b.abs().max().item<double>(), 1e-4);
}

double largest_difference(const Tensors& mine, const Tensors& theirs) {
  expects(mine.size() == theirs.size(), "the same parameters on both sides");
  double most = 0;
  for (const auto& [name, tensor] : mine) {
    const double d = relative_difference(tensor, theirs.at(name));
    most = std::isnan(d) ? INFINITY : std::max(most, d);
  }
  return most;
}

}  // namespace plait
