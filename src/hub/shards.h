// The weights of a folder: one model.safetensors, or shards that model.safetensors.index.json lists.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace plait::hub {

class Shards {
 public:
  // Reads and checks all headers. InputError, one line, for a shard that is missing, damaged or lies elsewhere, and for
  // a tensor that is not where the index says.
  explicit Shards(const std::string& folder);

  bool has(const std::string& name) const { return places_.contains(name); }
  const TensorInfo& info(const std::string& name) const { return files_[places_.at(name)].info(name); }  // REQUIRES has
  std::string file_of(const std::string& name) const { return paths_[places_.at(name)]; }                // the same
  std::vector<std::string> names() const;

  at::Tensor read(const std::string& name) const { return files_[places_.at(name)].read(name); }  // REQUIRES has

 private:
  void add(const std::string& path);
  std::vector<std::string> paths_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> places_;
};

// Writes tensors in this order into FOLDER/model.safetensors, or into shards of at most `shard_bytes` (0: any size)
// with an index. One tensor is held at a time. `written`: as bytes were.
struct ShardPlan {
  std::string folder;
  std::vector<TensorInfo> tensors;
  int64_t shard_bytes = 0;
  Written written = {};
};
void write_shards(const ShardPlan& plan, const std::function<at::Tensor(const TensorInfo& tensor)>& next);

}  // namespace plait::hub
