// One rank of a training run: the step's schedule with its parameters and moments, evaluation, and what a checkpoint
// needs.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parts.h"
#include "train/layer_load.h"
#include "train/loss_scale.h"
#include "train/run_shape.h"

namespace plait {

struct StepResult {
  double nll = 0, aux = 0;        // mean over the targets of the batch, nats; the auxiliary losses
  double grad_norm = 0;           // before clipping
  double loss_scale = 0;          // of this step; 0: the loss is not scaled
  bool skipped = false;           // a gradient was not finite: parameters and moments are as they were
  std::vector<LayerLoad> layers;  // those that have experts
  double dropped = 0;             // share of all routes, 0 to 1
  double busiest = 0;             // the greatest of the layers; 0: dense
};

class Trainer {
 public:
  // Every rank of the world makes one. `config` and `corpus` must outlive it.
  Trainer(const Config& config, const RunShape& shape, const data::Corpus& corpus, RankContext context, Keep keep = {});

  // Update number `step` (from 0). Every rank calls it.
  StepResult step(int64_t step, double lr);

  // Mean loss over all targets of the validation batches, nats a token: whatever the micro-batch, layout and family.
  // Every rank calls it. `leave`, asked before each batch, gives the same at all ranks; true ends it without a value.
  std::optional<double> evaluate(const std::function<bool()>& leave = {});

  // Parameters and moments, whole, on every rank; the lists of a checkpoint and a function that gathers for it.
  CheckpointContent checkpoint(RunState state);
  // InputError unless the checkpoint holds exactly these tensors, whole.
  void load(const Checkpoint& checkpoint);
  // Parameters, and what else the model computes with; moments stay as they are.
  void load_weights(const Checkpoint& checkpoint);

  const TrainingStep& schedule() const { return step_; }
  const Executor& executor() const { return executor_; }
  void observe(Observer observer) { executor_.observe(std::move(observer)); }
  at::Tensor whole(const std::string& leaf) { return joiner_.whole(leaf, executor_.bound(leaf)); }
  // The whole of a parameter's gradient in the last step; the gradient must have been kept.
  at::Tensor whole_gradient(const std::string& parameter);

  // A hash of this rank's bits of a parameter or moment.
  uint64_t fingerprint(const std::string& leaf) const;

 private:
  // Of parameters and moments, which are kept in full precision.
  StepTypes where() const { return {shape_.mesh, context_.rank, {}, {}, full_precision(context_.dtype)}; }
  RankContext full_context() const {
    RankContext context = context_;
    context.dtype = full_precision(context.dtype);
    return context;
  }
  void start_parameters();
  void keep(const std::string& leaf, const at::Tensor& part);
  void read(const Checkpoint& checkpoint, const std::vector<TensorInfo>& tensors);
  StepResult result() const;

  const Config& config_;
  RunShape shape_;
  const data::Corpus& corpus_;
  RankContext context_;
  TrainingStep step_;
  Executor executor_;
  LossScale scale_;
  std::unique_ptr<Executor> evaluation_;
  ValueId evaluation_nll_ = -1;
  const std::map<std::string, Stored> stored_;
  Joiner joiner_;
};

}  // namespace plait
