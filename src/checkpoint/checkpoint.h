// Checkpoints: DIR/step-00000123/ holds model.safetensors (what the model computes with, whole, under global names),
// optimizer.safetensors (the moments, NAME.m and NAME.v) and state.json; DIR/latest names the folder to resume from.
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
  Written written = {};  // may be empty; called with 0 where the disk did something else than to take data
};

// Writes DIR/step-N and points `latest` at it; keeps the last `keep` checkpoints (0: all). An older checkpoint of the
// same step is replaced. One rank calls it, which holds the folder. InputError when too little is free or the disk
// refuses: the folder is then as it was.
void save_checkpoint(const std::string& dir, const CheckpointContent& content, int keep);

// Removes what a save or a removal left behind that was cut short, and gives the names; a checkpoint that was to be
// replaced and has no successor stands under its name again. For who holds the folder.
std::vector<std::string> remove_leftovers(const std::string& dir);

// DIR/step-N
std::string checkpoint_folder(const std::string& dir, int64_t step);

// The folder `latest` names; without that file the newest complete one; nothing when there is none. InputError, which
// lists what is there, when it names a folder that is not.
std::optional<std::string> find_latest(const std::string& dir);

class Checkpoint {
 public:
  // Opens one checkpoint's folder and checks all headers. InputError in one line when something is missing or damaged.
  // The optimizer's file may be missing: then there are only weights.
  explicit Checkpoint(const std::string& folder);

  // What a model begins with: a checkpoint, a run's folder (its latest), or a model.safetensors, or a folder with one;
  // the last two know neither config nor step (empty, 0).
  static Checkpoint weights(const std::string& path);

  const std::string& folder() const { return folder_; }
  int64_t step() const { return json_.integer("step"); }
  int64_t seed() const { return json_.integer("seed"); }
  const std::string& config() const { return json_.text("config"); }
  const JsonObject& json() const { return json_; }

  const std::vector<TensorInfo>& model() const { return model_.tensors(); }
  const std::vector<TensorInfo>& optimizer() const;  // empty: there are only weights

  // InputError unless the checkpoint holds exactly these tensors, real ones of any size of number; names the first that
  // is missing, unknown or different. In which of the files a tensor lies does not matter.
  void require(std::span<const TensorInfo> model, std::span<const TensorInfo> optimizer) const;
  // The same of those that a model computes with, whatever else there is.
  void require_model(std::span<const TensorInfo> expected) const;

  // A tensor of either file, whole. InputError when unknown or damaged.
  at::Tensor read(const std::string& name) const;

 private:
  Checkpoint(std::string folder, JsonObject json);
  const SafetensorsFile& file_of(const std::string& name) const;
  void expect_tensor(const TensorInfo& info, std::string_view home) const;

  std::string folder_;
  JsonObject json_;
  SafetensorsFile model_;
  std::optional<SafetensorsFile> optimizer_;
};

}  // namespace plait
