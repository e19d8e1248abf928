// Checkpoints: DIR/step-00000123/ holds model.safetensors (parameters, whole, under their global names),
// optimizer.safetensors (their moments, NAME.m and NAME.v) and state.json; DIR/latest names the folder to resume from.
// A checkpoint is written under a hidden name, brought to the disk and renamed, then `latest` likewise: at any moment
// the last complete checkpoint can be loaded. Nothing here knows of meshes: tensors are whole.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace plait {

struct RunState {
  int64_t step = 0;  // updates done
  int64_t seed = 0;
  std::string config;  // the resolved config, as text
  JsonLine more;       // whatever else the run keeps; read back through Checkpoint::json
};

struct CheckpointContent {
  RunState state;
  std::vector<TensorInfo> model;
  std::vector<TensorInfo> optimizer;
  // Called once for each tensor, model first, in the order listed. It may gather the tensor from other ranks, which
  // then walk the same lists.
  std::function<at::Tensor(const std::string& name)> get;
};

// Writes DIR/step-N and points `latest` at it; keeps the last `keep` checkpoints (0: all). An older checkpoint of the
// same step is replaced. One rank calls it. InputError when the disk refuses.
void save_checkpoint(const std::string& dir, const CheckpointContent& content, int keep);

// The folder `latest` names, or the newest complete one when that is gone; nothing when there is none.
std::optional<std::string> find_latest(const std::string& dir);

class Checkpoint {
 public:
  // Opens one checkpoint's folder and checks all headers. InputError in one line when something is missing or damaged.
  explicit Checkpoint(const std::string& folder);

  int64_t step() const { return json_.integer("step"); }
  int64_t seed() const { return json_.integer("seed"); }
  const std::string& config() const { return json_.text("config"); }
  const JsonObject& json() const { return json_; }

  const std::vector<TensorInfo>& model() const { return model_.tensors(); }
  const std::vector<TensorInfo>& optimizer() const { return optimizer_.tensors(); }

  // InputError unless the file holds exactly these tensors, real ones of any size of number; names the first that is
  // missing, unknown or different.
  void require_model(std::span<const TensorInfo> expected) const;
  void require_optimizer(std::span<const TensorInfo> expected) const;

  // A tensor of either file, whole. InputError when unknown or damaged.
  at::Tensor read(const std::string& name) const;

 private:
  std::string folder_;
  JsonObject json_;
  SafetensorsFile model_;
  SafetensorsFile optimizer_;
};

}  // namespace plait
