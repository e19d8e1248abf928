#include "hub/shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "base/files.h"

namespace plait::hub {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A name that leads nowhere else.
bool is_plain(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." &&
         name != "..";
}

// Tensor by file.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json json = Json::parse(read_text(path), nullptr, false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    input_error("{}: expected an object with \"weight_map\", the file of each tensor", path);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string() || !is_plain(file.get<std::string>()))
      input_error("{}: the file of tensor '{}' is {}, expected a name in the same folder", path, tensor,
                  file.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80));
    files[tensor] = file.get<std::string>();
  }
  return files;
}

}  // namespace

Shards::Shards(const std::string& folder) {
  const std::string one = folder + "/model.safetensors", index = one + ".index.json";
  if (!fs::exists(index)) {
    if (!fs::exists(one))
      input_error("{}: no weights; expected model.safetensors, or model.safetensors.index.json with its shards",
                  folder);
    add(one);
    return;
  }
  const std::map<std::string, std::string> files = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : files) names.insert(file);
  for (const std::string& name : names) {
    if (!fs::exists(fmt::format("{}/{}", folder, name)))
      input_error("{}: names the shard {}, which is not there", index, name);
    add(fmt::format("{}/{}", folder, name));
  }
  for (const auto& [tensor, file] : files)
    if (!has(tensor) || fs::path(file_of(tensor)).filename() != file)
      input_error("{}: says that tensor '{}' lies in {}, which does not hold it", index, tensor, file);
}

void Shards::add(const std::string& path) {
  SafetensorsFile file(path);
  for (const TensorInfo& info : file.tensors())
    if (!places_.emplace(info.name, files_.size()).second)
      input_error("{}: tensor '{}' lies in {} too", path, info.name, file_of(info.name));
  paths_.push_back(path);
  files_.push_back(std::move(file));
}

std::vector<std::string> Shards::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : places_) all.push_back(name);
  return all;
}

namespace {

// As many tensors in a file as fit; one that fits in none has a file of its own.
std::vector<std::vector<TensorInfo>> dealt(const std::vector<TensorInfo>& tensors, int64_t most) {
  std::vector<std::vector<TensorInfo>> files(1);
  int64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) {
    if (most > 0 && bytes > 0 && bytes + tensor.bytes() > most) files.emplace_back(), bytes = 0;
    bytes += tensor.bytes();
    files.back().push_back(tensor);
  }
  return files;
}

}  // namespace

void write_shards(const ShardPlan& plan, const std::function<at::Tensor(const TensorInfo&)>& next) {
  const auto files = dealt(plan.tensors, plan.shard_bytes);
  Json index;
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name =
        files.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    SafetensorsWriter file(fmt::format("{}/{}", plan.folder, name), files[i], plan.written, SafetensorsFor::all);
    for (const TensorInfo& tensor : files[i]) {
      file.write(next(tensor));
      index["weight_map"][tensor.name] = name;
      bytes += tensor.bytes();
    }
    file.finish();
  }
  index["metadata"]["total_size"] = bytes;
  if (files.size() > 1) write_text(plan.folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace plait::hub
