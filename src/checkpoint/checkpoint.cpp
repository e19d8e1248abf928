#include "checkpoint/checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "base/errors.h"
#include "base/files.h"
#include "base/random.h"
#include "base/units.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFormat = 2;  // 1: without a checksum of the state
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
  SafetensorsWriter writer(path, tensors, content.written);
  for (const auto& tensor : tensors) writer.write(content.get(tensor.name));
  writer.finish();
}

int64_t bytes_of(const CheckpointContent& content) {
  int64_t bytes = 0;
  for (const auto* list : {&content.model, &content.optimizer})
    for (const TensorInfo& tensor : *list) bytes += tensor.bytes();
  return bytes;
}

void expect_room(const std::string& dir, int64_t bytes) {
  const auto space = fs::space(dir);
  if (space.available < static_cast<uint64_t>(bytes))
    input_error("cannot save a checkpoint in '{}': it needs {}, and {} are free", dir,
                human_bytes(static_cast<double>(bytes)), human_bytes(static_cast<double>(space.available)));
}

// A folder that is gone with its contents unless it is kept.
class FolderAside {
 public:
  explicit FolderAside(std::string path) : path_(std::move(path)) { fs::create_directory(path_); }
  ~FolderAside() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  void become(const std::string& name) { rename_durably(std::exchange(path_, ""), name); }

 private:
  std::string path_;
};

// Out of sight first, so that a removal cut short never leaves half a checkpoint under a checkpoint's name.
void remove_checkpoint(const std::string& dir, int64_t step) {
  const auto hidden = fmt::format("{}/.{}.old", dir, folder_name(step));
  fs::remove_all(hidden);
  rename_durably(fmt::format("{}/{}", dir, folder_name(step)), hidden);
  fs::remove_all(hidden);
}

void keep_last(const std::string& dir, int64_t current, int keep) {
  auto steps = steps_in(dir);
  for (size_t i = 0; keep > 0 && i + keep < steps.size(); ++i) {
    if (steps[i] != current) remove_checkpoint(dir, steps[i]);
  }
}

std::string hex(uint64_t number) { return fmt::format("{:016x}", number); }

// The line ends with a checksum of what stands before it.
constexpr std::string_view kChecksum = ", \"checksum\": \"";

std::string with_checksum(const std::string& line) {
  const std::string body = line.substr(0, line.size() - 1);
  return fmt::format("{}{}{}\"}}", body, kChecksum, hex(hash_name(body)));
}

void expect_checksum(const std::string& text, const std::string& path) {
  const size_t at = text.rfind(kChecksum);
  if (at == std::string::npos || text.substr(at + kChecksum.size()) != hex(hash_name(text.substr(0, at))) + "\"}\n")
    input_error("{}: is damaged: it differs from its checksum", path);
}

JsonObject read_state(const std::string& folder) {
  if (!fs::is_directory(folder)) input_error("{}: no such checkpoint; expected a folder {}N", folder, kPrefix);
  const auto path = folder + "/state.json";
  const std::string text = read_text(path);
  auto json = JsonObject::parse(text, path);
  for (const auto* key : {"format", "step", "seed"}) json.integer(key);
  json.text("config");
  const int64_t format = json.integer("format");
  if (format < 1 || format > kFormat)
    input_error("{}: format {}; this version reads formats 1 to {}", path, format, kFormat);
  if (format > 1) expect_checksum(text, path);
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

// What is listed by a folder of steps, for a person who has to choose.
std::string listed(const std::vector<int64_t>& steps) {
  if (steps.empty()) return "no checkpoint is there";
  std::vector<std::string> names;
  for (const int64_t step : steps) names.push_back(folder_name(step));
  return fmt::format("{} {} there", fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
}

}  // namespace

void save_checkpoint(const std::string& dir, const CheckpointContent& content, int keep) try {
  const auto moved = [&] {
    if (content.written) content.written(0);
  };
  fs::create_directories(dir);
  remove_leftovers(dir);
  expect_room(dir, bytes_of(content));
  const auto name = folder_name(content.state.step);
  const auto aside = fmt::format("{}/.{}.tmp", dir, name), folder = fmt::format("{}/{}", dir, name);
  FolderAside fresh(aside);
  write_tensors(aside + "/model.safetensors", content.model, content);
  moved();
  write_tensors(aside + "/optimizer.safetensors", content.optimizer, content);
  moved();
  auto json = content.state.more;
  json.add("format", kFormat).add("step", content.state.step).add("seed", content.state.seed);
  json.add("config", content.state.config);
  write_text(aside + "/state.json", with_checksum(json.str()) + "\n");
  moved();
  if (fs::exists(folder)) rename_durably(folder, fmt::format("{}/.{}.old", dir, name));
  fresh.become(folder);
  moved();
  write_text(fmt::format("{}/{}", dir, kLatest), name + "\n");
  moved();
  remove_leftovers(dir);
  keep_last(dir, content.state.step, keep);
} catch (const fs::filesystem_error& error) {
  input_error("cannot save a checkpoint in '{}': {}", dir, error.what());
}

std::vector<std::string> remove_leftovers(const std::string& dir) {
  std::vector<std::string> names;
  if (!fs::is_directory(dir)) return names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(fmt::format(".{}", kPrefix)) || name == fmt::format("{}.tmp", kLatest)) names.push_back(name);
  }
  for (std::string& name : names) {
    const std::string path = fmt::format("{}/{}", dir, name), was = name.substr(1, name.rfind('.') - 1);
    // One that was to be replaced, and is the last of its step.
    if (name.ends_with(".old") && step_of(was) && fs::exists(path + "/state.json") && !fs::exists(dir + "/" + was)) {
      rename_durably(path, fmt::format("{}/{}", dir, was));
      name += fmt::format(" (is {} again)", was);
    } else {
      fs::remove_all(path);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::string checkpoint_folder(const std::string& dir, int64_t step) {
  return fmt::format("{}/{}", dir, folder_name(step));
}

std::optional<std::string> find_latest(const std::string& dir) {
  const auto pointer = fmt::format("{}/{}", dir, kLatest);
  const auto steps = steps_in(dir);
  if (fs::is_regular_file(pointer)) {
    auto name = read_text(pointer);
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    const auto folder = fmt::format("{}/{}", dir, name);
    if (step_of(name) && fs::is_directory(folder)) return folder;
    input_error(
        "{} names '{}', which is not there; {}: write the name of one into it, or remove it to go on from the "
        "newest",
        pointer, name, listed(steps));
  }
  if (steps.empty()) return {};
  return fmt::format("{}/{}", dir, folder_name(steps.back()));
}

Checkpoint::Checkpoint(const std::string& folder) : Checkpoint(folder, read_state(folder)) {}

Checkpoint::Checkpoint(std::string folder, JsonObject json)
    : folder_(std::move(folder)), json_(std::move(json)), model_(folder_ + "/model.safetensors") {
  const auto optimizer = folder_ + "/optimizer.safetensors";
  if (fs::exists(optimizer)) optimizer_.emplace(optimizer);
}

Checkpoint Checkpoint::weights(const std::string& path) {
  const bool file = fs::path(path).filename() == "model.safetensors";
  std::string folder = file ? fs::path(path).parent_path().string() : path;
  if (folder.empty()) folder = ".";
  if (fs::exists(folder + "/state.json")) return Checkpoint(folder);
  if (!fs::exists(folder + "/model.safetensors")) {
    if (const auto latest = find_latest(folder)) return Checkpoint(*latest);
    input_error("{}: no weights; expected a checkpoint, a run's folder or a model.safetensors", path);
  }
  const JsonLine nothing = JsonLine{}.add("step", int64_t{0}).add("seed", int64_t{0}).add("config", "");
  return {folder, JsonObject::parse(nothing.str(), folder)};
}

const std::vector<TensorInfo>& Checkpoint::optimizer() const {
  static const std::vector<TensorInfo> none;
  return optimizer_ ? optimizer_->tensors() : none;
}

const SafetensorsFile& Checkpoint::file_of(const std::string& name) const {
  return optimizer_ && optimizer_->has(name) ? *optimizer_ : model_;
}

void Checkpoint::require(std::span<const TensorInfo> model, std::span<const TensorInfo> optimizer) const {
  if (!optimizer.empty() && !optimizer_)
    input_error(
        "{}: holds no optimizer.safetensors: a run cannot go on from weights alone; begin one with them by "
        "train.init={} and another log.dir",
        folder_, folder_);
  std::set<std::string> unused;
  for (const auto* list : {&this->model(), &this->optimizer()})
    for (const TensorInfo& info : *list) unused.insert(info.name);
  for (const auto& [list, home] : {std::pair{model, "model"}, std::pair{optimizer, "optimizer"}})
    for (const TensorInfo& info : list) {
      expect_tensor(info, home);
      unused.erase(info.name);
    }
  if (!unused.empty())
    input_error("{}/{}.safetensors: tensor '{}' is unknown to the model", folder_,
                model_.has(*unused.begin()) ? "model" : "optimizer", *unused.begin());
}

void Checkpoint::require_model(std::span<const TensorInfo> expected) const {
  for (const TensorInfo& info : expected) expect_tensor(info, "model");
}

void Checkpoint::expect_tensor(const TensorInfo& info, std::string_view home) const {
  const SafetensorsFile& file = file_of(info.name);
  if (!file.has(info.name))
    input_error("{}/{}.safetensors: holds no tensor '{}', which the model needs", folder_, home, info.name);
  if (const TensorInfo& held = file.info(info.name); !loads(held, info))
    input_error("{}/{}.safetensors: tensor '{}' is {}; the model needs {}", folder_, home, info.name, describe(held),
                describe(info));
}

at::Tensor Checkpoint::read(const std::string& name) const { return file_of(name).read(name); }

}  // namespace plait
