#include "train/trainer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/errors.h"
#include "base/random.h"
#include "base/stop.h"
#include "data/batch.h"
#include "train/feed.h"

namespace plait {

namespace {

RankContext with_lanes(RankContext context, const RunShape& shape) {
  context.lanes = shape.lanes;
  context.tile = shape.tile;
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
      scale_(LossScaleRule{.initial_power = static_cast<int>(config.train.initial_scale_power),
                           .window = config.train.loss_scale_window,
                           .hysteresis = config.train.hysteresis,
                           .lowest = config.train.min_loss_scale}),
      stored_(stored(step_)),
      joiner_(step_, full_context()) {
  start_parameters();
}

// Where messages are fast, as some gather it.
void Trainer::keep(const std::string& leaf, const at::Tensor& part) {
  executor_.bind(leaf, context_.zeros(part.sizes(), part.scalar_type()).copy_(part));
}

void Trainer::start_parameters() {
  const Schedule& s = step_.schedule;
  for (const Parameter& p : step_.parameters)
    keep(p.name, initial_part(p, stored_.at(p.name), static_cast<uint64_t>(config_.train.seed), where()));
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::state)
      executor_.bind(s.names[leaf.value], at::zeros(local_shape(s.mesh, leaf.type), where().dtype));
}

namespace {

// Below 2^52, as draws ask.
int64_t step_key(uint64_t seed, int64_t micro_batch) {
  return static_cast<int64_t>(hash64(random_key(seed, "gates"), static_cast<uint64_t>(micro_batch)) >> 12);
}

}  // namespace

StepResult Trainer::step(int64_t step, double lr) {
  const data::BatchPlan plan = batch_plan(config_, shape_);
  BatchShape tokens{shape_.sizes.tokens(), shape_.sizes.tokens() * shape_.num_micro};
  const int dp_rank = shape_.mesh.coordinate(context_.rank, Axis::dp);
  data::Batch batch;
  int loaded = -1;
  executor_.run([&](const std::string& leaf, int micro) {
    if (leaf == "lr") return at::full({}, lr, at::kDouble);
    if (leaf == "step") return at::full({}, static_cast<double>(step + 1 - scale_.skipped()), at::kDouble);
    if (leaf == "loss_scale") return at::full({}, scale_.value(), where().dtype);
    tokens.step_key = step_key(plan.seed, step * shape_.num_micro + micro);
    if (micro != loaded)
      batch = data::make_batch(corpus_, plan, {.step = step, .micro = loaded = micro, .dp_rank = dp_rank});
    return data_leaf(leaf, batch, tokens, where().dtype);
  });
  StepResult r = result();
  if (shape_.optimizer.scaling == Optimizer::Scaling::dynamic) {
    r.loss_scale = scale_.value();
    r.skipped = !std::isfinite(r.grad_norm);
    scale_.update(r.skipped ? LossScale::Step::skipped : LossScale::Step::made);
  }
  return r;
}

StepResult Trainer::result() const {
  StepResult r;
  r.nll = executor_.scalar(step_.nll);
  r.aux = step_.aux < 0 ? 0 : executor_.scalar(step_.aux);
  r.grad_norm = executor_.scalar(step_.norm);
  const auto numbers = [&](ValueId v) {
    const at::Tensor t = executor_.value(v).to(at::kDouble);
    return std::vector<double>(t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel());
  };
  double all = 0, kept = 0;
  for (size_t i = 0; i < step_.moe_layers.size(); ++i) {
    const std::vector<double> chosen = numbers(step_.chosen[i]), stayed = numbers(step_.kept[i]);
    r.layers.push_back(layer_load(step_.moe_layers[i], chosen, stayed));
    r.busiest = std::max(r.busiest, r.layers.back().busiest);
    all += std::accumulate(chosen.begin(), chosen.end(), 0.0);
    kept += std::accumulate(stayed.begin(), stayed.end(), 0.0);
  }
  r.dropped = all > 0 ? 1 - kept / all : 0;
  return r;
}

std::optional<double> Trainer::evaluate(const std::function<bool()>& leave) {
  if (!evaluation_) {
    Evaluation evaluation = build_evaluation(shape_.mesh, evaluated_at_once(shape_));
    evaluation_nll_ = evaluation.nll;
    evaluation_ = std::make_unique<Executor>(std::move(evaluation.schedule), context_, executor_);
  }
  const Schedule& s = evaluation_->schedule();
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
      evaluation_->bind(s.names[leaf.value], executor_.bound(s.names[leaf.value]));
  const data::EvalPlan plan{.batch_size = evaluated_at_once(shape_).sequences,
                            .seq_length = shape_.sizes.positions,
                            .max_sequences = config_.train.eval_batches * config_.train.batch_size,
                            .dp_size = shape_.mesh.extent(Axis::dp)};
  const int dp_rank = shape_.mesh.coordinate(context_.rank, Axis::dp);
  double sum = 0, targets = 0;
  for (int64_t i = 0; i < data::num_eval_batches(corpus_, plan); ++i) {
    if (leave && leave()) return {};
    const data::Batch batch = data::eval_batch(corpus_, plan, i, dp_rank);
    const BatchShape tokens{batch.num_targets, batch.num_targets};
    evaluation_->run([&](const std::string& leaf, int) { return data_leaf(leaf, batch, tokens, where().dtype); });
    sum += evaluation_->scalar(evaluation_nll_) * static_cast<double>(batch.num_targets);
    targets += static_cast<double>(batch.num_targets);
  }
  return sum / targets;
}

namespace {

// What only the optimizer reads; all else that a step leaves behind is the model's.
std::set<ValueId> moments(const Schedule& s) {
  std::set<ValueId> all;
  for (const Step& step : s.steps)
    if (as<AdamW>(step.op)) all.insert({step.in[2], step.in[3]});
  return all;
}

}  // namespace

CheckpointContent Trainer::checkpoint(RunState state) {
  CheckpointContent content{.state = std::move(state)};
  if (shape_.optimizer.scaling == Optimizer::Scaling::dynamic) scale_.save(content.state.more);
  const Schedule& s = step_.schedule;
  const std::set<ValueId> optimizers = moments(s);
  for (const Leaf& leaf : s.leaves) {
    if (leaf.kind != LeafKind::parameter && leaf.kind != LeafKind::state) continue;
    const std::string& name = s.names[leaf.value];
    TensorInfo info{name, whole_shape(stored_.at(name)), where().dtype};
    (optimizers.contains(leaf.value) ? content.optimizer : content.model).push_back(std::move(info));
  }
  content.get = [this](const std::string& name) { return whole(name); };
  return content;
}

void Trainer::load(const Checkpoint& checkpoint) {
  const CheckpointContent mine = this->checkpoint({});
  checkpoint.require(mine.model, mine.optimizer);
  if (shape_.optimizer.scaling == Optimizer::Scaling::dynamic) scale_.load(checkpoint.json());
  for (const auto* list : {&mine.model, &mine.optimizer}) read(checkpoint, *list);
}

void Trainer::load_weights(const Checkpoint& checkpoint) {
  const std::vector<TensorInfo> mine = this->checkpoint({}).model;
  checkpoint.require_model(mine);
  read(checkpoint, mine);
}

void Trainer::read(const Checkpoint& checkpoint, const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    stop::point();
    keep(tensor.name, part_of(checkpoint.read(tensor.name), stored_.at(tensor.name), where()));
  }
}

at::Tensor Trainer::whole_gradient(const std::string& parameter) {
  return joiner_.whole(parameter, executor_.value(step_.gradients.at(parameter)).contiguous());
}

uint64_t Trainer::fingerprint(const std::string& leaf) const {
  const at::Tensor part = executor_.bound(leaf);
  return hash_name({static_cast<const char*>(part.data_ptr()), part.nbytes()});
}

}  // namespace plait
