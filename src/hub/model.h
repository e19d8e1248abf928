// A folder of transformers as what our model begins with.
#pragma once
#include <memory>

#include "checkpoint/checkpoint.h"
#include "hub/family.h"
#include "hub/shards.h"
#include "model/parameters.h"

namespace plait::hub {

// Whether the folder holds a config.json with a model_type.
bool is_published(const std::string& folder);

// Experts made of a dense feed-forward: each is that one, changed by `noise` times its own deviation; the gate is small
// and random, so that with chosen weights that sum to 1 the first loss is that of the dense model.
struct Upcycling {
  int64_t experts = 0, top_k = 2;  // 0 experts: none are made
  double noise = 0;
};

class Model {
 public:
  // Reads config.json and all headers, no data. InputError in one line.
  explicit Model(const std::string& folder, Upcycling upcycling = {});

  const std::string& folder() const { return folder_; }
  const PublishedFamily& family() const { return *family_; }
  const ConfigJson& json() const { return json_; }
  const Settings& settings() const { return settings_; }
  Config config(std::vector<std::string> overrides = {}) const;  // resolved: those settings, then these

  // InputError, which names tensor and file, unless the folder holds all that these are made of, in the right shapes,
  // and nothing else.
  void require(std::span<const TensorInfo> ours) const;

  at::ScalarType dtype(const TensorInfo& ours) const;  // of the pieces it is made of, the widest
  at::Tensor read(const TensorInfo& ours) const;       // REQUIRES require; in that type

 private:
  std::vector<Published> pieces(const TensorInfo& ours) const;
  bool is_made(const std::string& name, std::string_view part) const;
  at::Tensor made_experts(const TensorInfo& ours) const;

  std::string folder_;
  Upcycling upcycling_;
  ConfigJson json_;
  const PublishedFamily* family_;
  Settings settings_;
  Shards shards_;
};

Weights weights_of(Model model);

// Of a config, on one rank.
std::vector<TensorInfo> tensors_of(const Config& config);

}  // namespace plait::hub
