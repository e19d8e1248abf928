#include "train/trainer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/random.h"
#include "data/batch.h"
#include "schedule/contraction.h"
#include "train/feed.h"

namespace plait {

RunShape run_shape(const Config& c) {
  return {Mesh({.ranks = static_cast<int>(num_ranks(c)),
                .tp = static_cast<int>(c.mesh.tp),
                .esp = static_cast<int>(c.mesh.esp),
                .ep = static_cast<int>(c.mesh.ep)}),
          model_sizes(c), optimizer(c), static_cast<int>(micro_batches(c)),
          c.schedule.lanes ? static_cast<int>(c.mesh.node) : 0};
}

TrainingStep build_step(const RunShape& shape) {
  return build_step(shape.mesh, shape.sizes, shape.optimizer, shape.num_micro);
}

RunShape one_rank(const RunShape& shape) {
  RunShape one = shape;
  one.mesh = Mesh();
  one.ranks_per_node = 0;
  one.sizes.family = Family::ted;
  one.sizes.chunks = 1;
  one.sizes.chunks_backward = 0;
  if (shape.sizes.family == Family::parm)
    one.sizes.group = one.sizes.capacity = 0;  // its groups count copies; it drops nothing
  if (!one.sizes.capacity) one.sizes.drop = Drop::none;
  return one;
}

namespace {

RankContext with_lanes(RankContext context, const RunShape& shape) {
  context.ranks_per_node = shape.ranks_per_node;
  return context;
}

}  // namespace

Trainer::Trainer(const Config& config, const RunShape& shape, const data::Corpus& corpus, RankContext context,
                 Keep keep)
    : config_(config),
      shape_(shape),
      corpus_(corpus),
      context_(with_lanes(context, shape)),
      step_(build_step(shape)),
      executor_(step_.schedule, context_, std::move(keep)),
      stored_(stored(step_)),
      joiner_(step_, context) {
  start_parameters();
}

void Trainer::start_parameters() {
  const Schedule& s = step_.schedule;
  for (const Parameter& p : step_.parameters)
    executor_.bind(p.name, initial_part(p, stored_.at(p.name), static_cast<uint64_t>(config_.train.seed), where()));
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::state)
      executor_.bind(s.names[leaf.value], at::zeros(local_shape(s.mesh, leaf.type), context_.dtype));
}

namespace {

// Below 2^52, as draws ask.
int64_t step_key(uint64_t seed, int64_t micro_batch) {
  return static_cast<int64_t>(hash64(random_key(seed, "gates"), static_cast<uint64_t>(micro_batch)) >> 12);
}

}  // namespace

StepResult Trainer::step(int64_t step, double lr) {
  const data::BatchPlan plan{.seed = static_cast<uint64_t>(config_.train.seed),
                             .batch_size = config_.train.batch_size,
                             .seq_length = config_.train.seq_length,
                             .num_micro = shape_.num_micro,
                             .dp_size = shape_.mesh.extent(Axis::dp)};
  BatchShape tokens{shape_.sizes.tokens(), shape_.sizes.tokens() * shape_.num_micro};
  const int dp_rank = shape_.mesh.coordinate(context_.rank, Axis::dp);
  data::Batch batch;
  int loaded = -1;
  executor_.run([&](const std::string& leaf, int micro) {
    if (leaf == "lr") return at::full({}, lr, at::kDouble);
    if (leaf == "step") return at::full({}, static_cast<double>(step + 1), at::kDouble);
    tokens.step_key = step_key(plan.seed, step * shape_.num_micro + micro);
    if (micro != loaded)
      batch = data::make_batch(corpus_, plan, {.step = step, .micro = loaded = micro, .dp_rank = dp_rank});
    return data_leaf(leaf, batch, tokens, context_.dtype);
  });
  return result();
}

StepResult Trainer::result() const {
  StepResult r;
  r.nll = executor_.scalar(step_.nll);
  r.aux = step_.aux < 0 ? 0 : executor_.scalar(step_.aux);
  r.grad_norm = executor_.scalar(step_.norm);
  double all = 0, kept = 0;
  for (size_t l = 0; l < step_.chosen.size(); ++l) {
    const at::Tensor chosen = executor_.value(step_.chosen[l]).to(at::kDouble);
    const double* c = chosen.const_data_ptr<double>();
    r.chosen.emplace_back(c, c + chosen.numel());
    const double routes = std::accumulate(c, c + chosen.numel(), 0.0);
    if (routes > 0)
      r.busiest =
          std::max(r.busiest, *std::max_element(c, c + chosen.numel()) * static_cast<double>(chosen.numel()) / routes);
    all += routes;
    kept += executor_.value(step_.kept[l]).sum().item<double>();
  }
  r.dropped = all > 0 ? 1 - kept / all : 0;
  return r;
}

double Trainer::evaluate() {
  if (!evaluation_) {
    Evaluation evaluation = build_evaluation(shape_.mesh, shape_.sizes);
    evaluation_nll_ = evaluation.nll;
    evaluation_ = std::make_unique<Executor>(std::move(evaluation.schedule), context_);
  }
  const Schedule& s = evaluation_->schedule();
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
      evaluation_->bind(s.names[leaf.value], executor_.bound(s.names[leaf.value]));
  const data::EvalPlan plan{.batch_size = shape_.sizes.sequences,
                            .seq_length = shape_.sizes.positions,
                            .max_batches = config_.train.eval_batches,
                            .dp_size = shape_.mesh.extent(Axis::dp)};
  const int dp_rank = shape_.mesh.coordinate(context_.rank, Axis::dp);
  double sum = 0, targets = 0;
  for (int64_t i = 0; i < data::num_eval_batches(corpus_, plan); ++i) {
    const data::Batch batch = data::eval_batch(corpus_, plan, i, dp_rank);
    const BatchShape tokens{batch.num_targets, batch.num_targets};
    evaluation_->run([&](const std::string& leaf, int) { return data_leaf(leaf, batch, tokens, context_.dtype); });
    sum += evaluation_->scalar(evaluation_nll_) * static_cast<double>(batch.num_targets);
    targets += static_cast<double>(batch.num_targets);
  }
  return sum / targets;
}

CheckpointContent Trainer::checkpoint(RunState state) {
  CheckpointContent content{.state = std::move(state)};
  const Schedule& s = step_.schedule;
  for (const Leaf& leaf : s.leaves) {
    if (leaf.kind != LeafKind::parameter && leaf.kind != LeafKind::state) continue;
    const std::string& name = s.names[leaf.value];
    TensorInfo info{name, whole_shape(stored_.at(name)), context_.dtype};
    (leaf.kind == LeafKind::parameter ? content.model : content.optimizer).push_back(std::move(info));
  }
  content.get = [this](const std::string& name) { return whole(name); };
  return content;
}

void Trainer::load(const Checkpoint& checkpoint) {
  const CheckpointContent mine = this->checkpoint({});
  checkpoint.require_model(mine.model);
  checkpoint.require_optimizer(mine.optimizer);
  const Schedule& s = step_.schedule;
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
      executor_.bind(s.names[leaf.value],
                     part_of(checkpoint.read(s.names[leaf.value]), stored_.at(s.names[leaf.value]), where()));
}

at::Tensor Trainer::whole_gradient(const std::string& parameter) {
  return joiner_.whole(parameter, executor_.value(step_.gradients.at(parameter)).contiguous());
}

uint64_t Trainer::fingerprint(const std::string& leaf) const {
  const at::Tensor part = executor_.bound(leaf);
  return hash_name({static_cast<const char*>(part.data_ptr()), part.nbytes()});
}

namespace {

double product_flops(const Mesh& mesh, const Types& types, const Step& step) {
  const Type &a = types[step.in[0]], &b = types[step.in[1]];
  double n = 2.0 * static_cast<double>(local_elements(mesh, a));
  for (const Dim& dim : b.dims)
    if (!a.has(dim.name)) n *= static_cast<double>(local_size(mesh, dim));
  return n;
}

// Two products of a causal square, 2 S^2 A / 2 each; backward makes five.
double attention_flops(const Mesh& mesh, const Type& q, double products) {
  return products * static_cast<double>(local_elements(mesh, q)) * static_cast<double>(q.find("S")->size);
}

}  // namespace

double step_flops(const TrainingStep& step) {
  const Schedule& s = step.schedule;
  const Types types = check(s);
  double sum = 0;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Step& st = s.steps[i];
    double n = 0;
    if (as<Einsum>(st.op)) n = product_flops(s.mesh, types, st);
    if (as<Attention>(st.op)) n = attention_flops(s.mesh, types[st.in[0]], 2);
    if (as<AttentionGrad>(st.op)) n = attention_flops(s.mesh, types[st.in[0]], 5);
    const bool repeated = s.repeat && static_cast<int>(i) >= s.repeat->first && static_cast<int>(i) < s.repeat->last;
    sum += n * (repeated ? s.repeat->times : 1);
  }
  return sum * s.mesh.ranks();
}

}  // namespace plait
