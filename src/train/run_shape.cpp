#include "train/run_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "plan/simulate.h"
#include "schedule/lanes.h"

namespace plait {

namespace {

// Bytes of an element of a sum of gradients.
int64_t sum_bytes(const Config& c) {
  if (c.train.dtype == RunType::float64) return 8;
  return c.memory.grad_dtype == SumType::param && c.train.dtype != RunType::float32 ? 2 : 4;
}

}  // namespace

Mesh mesh_of(const Config& c) {
  return Mesh({.ranks = static_cast<int>(num_ranks(c)),
               .tp = static_cast<int>(c.mesh.tp),
               .esp = static_cast<int>(c.mesh.esp),
               .ep = static_cast<int>(c.mesh.ep),
               .node = c.schedule.dispatch == Dispatch::direct ? 0 : static_cast<int>(c.mesh.node)});
}

RunShape run_shape(const Planned& run) {
  const Config& c = run.config;
  RunShape shape{.mesh = mesh_of(c),
                 .sizes = model_sizes(c),
                 .optimizer = optimizer(c),
                 .num_micro = static_cast<int>(micro_batches(c))};
  shape.tile = c.memory.tile;
  if (c.schedule.lanes) shape.lanes = NodeLanes{static_cast<int>(c.mesh.node)};
  if (c.schedule.order == StepOrder::overlap) shape.pace = run.machine;
  const int64_t item = sum_bytes(c);
  if (c.schedule.bucket > 0) shape.bucket = std::max<int64_t>(1, std::llround(c.schedule.bucket * (1 << 20)) / item);
  return shape;
}

TrainingStep build_step(const RunShape& shape) {
  TrainingStep step = build_step(shape.mesh, shape.sizes, shape.optimizer, {shape.num_micro, shape.bucket});
  expects(!shape.pace || shape.lanes, "build_step: what overlaps has lanes");
  if (shape.pace) step.schedule = overlapped(step.schedule, *shape.pace, *shape.lanes);
  return step;
}

ModelSizes evaluated_at_once(const RunShape& shape) {
  const ModelSizes& s = shape.sizes;
  if (!s.capacity || s.eval_capacity) return s;
  const int64_t dp = shape.mesh.extent(Axis::dp), tp = shape.mesh.extent(Axis::tp), all = s.sequences / dp;
  const int64_t whole = tp / std::gcd(tp, s.positions);  // sequences that tp cuts evenly
  const int64_t fit = all * s.capacity * s.experts / (s.group * s.top_k);
  return with_batch(s, dp * std::clamp(fit / whole * whole, whole, all), s.positions);
}

RunShape one_rank(const RunShape& shape) {
  RunShape one = shape;
  one.mesh = Mesh();
  one.bucket = 0;
  one.lanes.reset();
  one.pace.reset();
  one.sizes.family = &families::ted;
  one.sizes.dispatch = Dispatch::direct;
  one.sizes.pad_rows = false;
  one.sizes.chunks = 1;
  one.sizes.chunks_backward = 0;
  if (shape.sizes.family->copies() && shape.mesh.extent(Axis::tp) > 1)
    one.sizes.group = one.sizes.capacity = 0;  // its groups count copies; it drops nothing
  if (!one.sizes.capacity) one.sizes.drop = Drop::none;
  return one;
}

at::ScalarType dtype_of(const Config& config) {
  switch (config.train.dtype) {
    case RunType::float32: return at::kFloat;
    case RunType::float64: return at::kDouble;
    case RunType::bfloat16: return at::kBFloat16;
    case RunType::float16: return at::kHalf;
  }
  return at::kFloat;
}

data::CorpusSource corpus_source(const Config& config) {
  return {.paths = config.data.path,
          .validation_fraction = config.data.validation,
          .seq_length = config.train.seq_length,
          .vocab_size = config.model.vocab_size};
}

data::BatchPlan batch_plan(const Config& config, const RunShape& shape) {
  return {.seed = static_cast<uint64_t>(config.train.seed),
          .batch_size = config.train.batch_size,
          .seq_length = config.train.seq_length,
          .num_micro = shape.num_micro,
          .dp_size = shape.mesh.extent(Axis::dp)};
}

launch::RankOptions rank_options(const Config& config) {
  const Mesh mesh = mesh_of(config);
  return {.ranks = mesh.ranks(),
          .timeout = launch::Seconds(config.log.timeout),
          .threads = static_cast<int>(config.mesh.threads),
          .lanes = config.schedule.lanes ? kNumLanes - 1 : 0,
          .name = [mesh](int rank) { return mesh.coordinates(rank); }};
}

}  // namespace plait
