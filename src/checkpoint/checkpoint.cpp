#include "checkpoint/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/errors.h"
#include "base/files.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFormat = 1;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kLatest = "latest";

std::string folder_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

// The step a folder's name says, or nothing for any other name; hidden names begin with a dot.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return {};
  return step;
}

std::vector<int64_t> steps_in(const std::string& dir) {
  std::vector<int64_t> steps;
  if (!fs::is_directory(dir)) return steps;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void write_tensors(const std::string& path, const std::vector<TensorInfo>& tensors, const CheckpointContent& content) {
  SafetensorsWriter writer(path, tensors);
  for (const auto& tensor : tensors) writer.write(content.get(tensor.name));
  writer.finish();
}

// Out of sight first, so that a removal cut short never leaves half a checkpoint under a checkpoint's name.
void remove_checkpoint(const std::string& dir, int64_t step) {
  const auto hidden = fmt::format("{}/.{}.old", dir, folder_name(step));
  fs::remove_all(hidden);
  rename_durably(fmt::format("{}/{}", dir, folder_name(step)), hidden);
  fs::remove_all(hidden);
}

// What an interrupted save or removal left behind.
void remove_leftovers(const std::string& dir) {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().filename().string().starts_with(fmt::format(".{}", kPrefix))) leftovers.push_back(entry.path());
  }
  for (const auto& path : leftovers) fs::remove_all(path);
}

void keep_last(const std::string& dir, int64_t current, int keep) {
  auto steps = steps_in(dir);
  for (size_t i = 0; keep > 0 && i + keep < steps.size(); ++i) {
    if (steps[i] != current) remove_checkpoint(dir, steps[i]);
  }
}

JsonObject read_state(const std::string& folder) {
  if (!fs::is_directory(folder)) input_error("{}: no such checkpoint; expected a folder {}N", folder, kPrefix);
  const auto path = folder + "/state.json";
  auto json = JsonObject::parse(read_text(path), path);
  for (const auto* key : {"format", "step", "seed"}) json.integer(key);
  json.text("config");
  if (json.integer("format") != kFormat) {
    input_error("{}: format {}; this version reads format {}", path, json.integer("format"), kFormat);
  }
  return json;
}

std::string describe(const TensorInfo& info) {
  const bool known = info.dtype != at::ScalarType::Undefined;
  return fmt::format("{} [{}]", known ? at::toString(info.dtype) : "of an unknown type", fmt::join(info.shape, ", "));
}

// Real numbers are converted: a run of any precision goes on from one of any other.
bool loads(const TensorInfo& held, const TensorInfo& info) {
  const bool real = at::isFloatingType(held.dtype) && at::isFloatingType(info.dtype);
  return held.shape == info.shape && (real || held.dtype == info.dtype);
}

void require(const std::string& where, const std::vector<TensorInfo>& held, std::span<const TensorInfo> expected) {
  std::map<std::string, const TensorInfo*> unused;
  for (const auto& info : held) unused[info.name] = &info;
  for (const auto& info : expected) {
    const auto found = unused.find(info.name);
    if (found == unused.end()) input_error("{}: holds no tensor '{}', which the model needs", where, info.name);
    if (!loads(*found->second, info)) {
      input_error("{}: tensor '{}' is {}; the model needs {}", where, info.name, describe(*found->second),
                  describe(info));
    }
    unused.erase(found);
  }
  if (!unused.empty()) input_error("{}: tensor '{}' is unknown to the model", where, unused.begin()->first);
}

}  // namespace

void save_checkpoint(const std::string& dir, const CheckpointContent& content, int keep) try {
  fs::create_directories(dir);
  remove_leftovers(dir);
  const auto name = folder_name(content.state.step);
  const auto aside = fmt::format("{}/.{}.tmp", dir, name), folder = fmt::format("{}/{}", dir, name);
  fs::create_directory(aside);
  write_tensors(aside + "/model.safetensors", content.model, content);
  write_tensors(aside + "/optimizer.safetensors", content.optimizer, content);
  auto json = content.state.more;
  json.add("format", kFormat).add("step", content.state.step).add("seed", content.state.seed);
  json.add("config", content.state.config);
  write_text(aside + "/state.json", json.str() + "\n");
  if (fs::exists(folder)) remove_checkpoint(dir, content.state.step);
  rename_durably(aside, folder);
  write_text(fmt::format("{}/{}", dir, kLatest), name + "\n");
  keep_last(dir, content.state.step, keep);
} catch (const fs::filesystem_error& error) {
  input_error("cannot save a checkpoint in '{}': {}", dir, error.what());
}

std::optional<std::string> find_latest(const std::string& dir) {
  const auto pointer = fmt::format("{}/{}", dir, kLatest);
  if (fs::is_regular_file(pointer)) {
    auto name = read_text(pointer);
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    const auto folder = fmt::format("{}/{}", dir, name);
    if (step_of(name) && fs::is_directory(folder)) return folder;
  }
  const auto steps = steps_in(dir);
  if (steps.empty()) return {};
  return fmt::format("{}/{}", dir, folder_name(steps.back()));
}

Checkpoint::Checkpoint(const std::string& folder)
    : folder_(folder),
      json_(read_state(folder)),
      model_(folder + "/model.safetensors"),
      optimizer_(folder + "/optimizer.safetensors") {}

void Checkpoint::require_model(std::span<const TensorInfo> expected) const {
  require(folder_ + "/model.safetensors", model(), expected);
}

void Checkpoint::require_optimizer(std::span<const TensorInfo> expected) const {
  require(folder_ + "/optimizer.safetensors", optimizer(), expected);
}

at::Tensor Checkpoint::read(const std::string& name) const {
  return optimizer_.has(name) ? optimizer_.read(name) : model_.read(name);
}

}  // namespace plait
