#include "hub/transfer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "base/files.h"
#include "base/folder_aside.h"
#include "base/stop.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPublished = "published";

// Beside weights, which are read; in whatever form they come.
bool is_weights(const fs::path& path) {
  static const std::set<std::string> ends = {".safetensors", ".bin", ".pt",      ".pth",
                                             ".gguf",        ".h5",  ".msgpack", ".onnx"};
  return ends.contains(path.extension().string()) || path.filename().string().ends_with(".index.json");
}

void copy_beside_weights(const std::string& from, const std::string& to) {
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path& path = entry.path();
    if (!entry.is_regular_file() || is_weights(path) || fs::exists(to / path.filename())) continue;
    write_text((to / path.filename()).string(), read_text(path.string()));
  }
}

void expect_fresh(const std::string& folder) {
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder)))
    input_error("{}: is there and not empty; choose a new folder", folder);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// A folder aside that becomes `folder`.
class NewFolder {
 public:
  explicit NewFolder(const std::string& folder) : folder_(without_slash(folder)), aside_(prepared(folder_)) {}
  const std::string& path() const { return aside_.path(); }
  void keep() {
    if (fs::exists(folder_)) fs::remove(folder_);
    aside_.become(folder_);
  }

 private:
  static std::string prepared(const std::string& folder) {
    expect_fresh(folder);
    const fs::path parent = fs::path(folder).parent_path();
    if (!parent.empty()) fs::create_directories(parent);
    const std::string aside = folder + ".part";
    fs::remove_all(aside);
    return aside;
  }
  std::string folder_;
  FolderAside aside_;
};

int64_t bytes_of(const std::vector<TensorInfo>& tensors) {
  int64_t all = 0;
  for (const TensorInfo& t : tensors) all += t.bytes();
  return all;
}

Written counted(const Progress& progress, int64_t all) {
  if (!progress) return {};
  return [progress, all, done = int64_t{0}](int64_t bytes) mutable { progress(done += bytes, all); };
}

// The sections of a config file.
std::string config_text(const Model& model) {
  std::map<std::string, std::string> sections;
  for (const std::string& line : model.settings().overrides) {
    const size_t dot = line.find('.'), is = line.find('=');
    sections[line.substr(0, dot)] += fmt::format("{} = {}\n", line.substr(dot + 1, is - dot - 1), line.substr(is + 1));
  }
  std::string text = fmt::format("# The model of {}, to start from: train.init says where its weights are.\n",
                                 fs::path(without_slash(model.folder())).filename().string());
  for (const auto& [name, lines] : sections) text += fmt::format("\n[{}]\n{}", name, lines);
  return text;
}

}  // namespace

void import_model(const Import& import) try {
  const Model model(import.from, import.upcycling);
  const Config config = model.config();
  std::vector<TensorInfo> tensors = tensors_of(config);
  model.require(tensors);
  for (TensorInfo& tensor : tensors) tensor.dtype = model.dtype(tensor);
  if (import.tell)
    for (const std::string& note : model.settings().notes) import.tell(note);
  NewFolder folder(import.to);
  fs::create_directory(folder.path() + "/" + kPublished);
  copy_beside_weights(import.from, folder.path() + "/" + kPublished);
  write_text(folder.path() + "/config.toml", config_text(model));
  std::map<std::string, TensorInfo> by_name;
  for (const TensorInfo& tensor : tensors) by_name[tensor.name] = tensor;
  save_checkpoint(folder.path(),
                  {.state = {.step = 0, .seed = config.train.seed, .config = to_toml(config), .more = {}},
                   .model = tensors,
                   .optimizer = {},
                   .get =
                       [&](const std::string& name) {
                         stop::point();
                         return model.read(by_name.at(name));
                       },
                   .written = counted(import.progress, bytes_of(tensors))},
                  0);
  folder.keep();
} catch (const fs::filesystem_error& error) {
  input_error("cannot import '{}' into '{}': {}", import.from, import.to, error.what());
}

namespace {

constexpr std::array kTypes = {std::pair{"float64", at::kDouble}, std::pair{"float32", at::kFloat},
                               std::pair{"float16", at::kHalf}, std::pair{"bfloat16", at::kBFloat16}};

std::optional<at::ScalarType> type_named(const std::string& name) {
  for (const auto& [word, type] : kTypes)
    if (name == word) return type;
  return {};
}

// What a model came with: beside the checkpoint's run, or where the run took its weights.
std::optional<std::string> published_with(const std::string& checkpoint, const Config& config) {
  const std::string init = config.train.init;
  const std::string run = fs::path(without_slash(checkpoint)).parent_path().string();
  for (const std::string& folder :
       {run + "/" + kPublished, checkpoint + "/" + kPublished, init, init + "/" + kPublished,
        fs::path(without_slash(init)).parent_path().string() + "/" + kPublished})
    if (is_published(folder)) return folder;
  return {};
}

struct Pieces {
  std::vector<TensorInfo> published;
  std::vector<std::pair<const TensorInfo*, int64_t>> place;  // which of ours, and from which element on
};

class Exporter {
 public:
  Exporter(const Export& plan, const std::string& folder)
      : plan_(plan), checkpoint_(folder), config_(config_of(checkpoint_)), with_(published_with(folder, config_)) {
    const std::string like = with_ ? ConfigJson::of(*with_).text("model_type") : "";
    family_ = &hub::family_of(config_, like);
    if (like != family_->model_type) with_.reset();
    generated_ = json_of(*family_, config_);
    if (!plan.dtype.empty() && !type_named(plan.dtype))
      input_error("--dtype {}: expected float64, float32, float16 or bfloat16", plan.dtype);
    ours_ = tensors_of(config_);
    checkpoint_.require_model(ours_);
  }

  void write() {
    const Pieces pieces = this->pieces();
    NewFolder folder(plan_.to);
    if (with_) copy_beside_weights(*with_, folder.path());
    write_config(folder.path(), pieces);
    size_t next = 0;
    const TensorInfo* held = nullptr;
    at::Tensor whole;
    write_shards(
        {folder.path(), pieces.published, plan_.shard_bytes, counted(plan_.progress, bytes_of(pieces.published))},
        [&](const TensorInfo& tensor) {
          stop::point();
          const auto [ours, at] = pieces.place[next++];
          if (held != ours) whole = checkpoint_.read(ours->name).flatten(), held = ours;
          int64_t n = 1;
          for (const int64_t size : tensor.shape) n *= size;
          return whole.narrow(0, at, n).to(tensor.dtype).view(tensor.shape).contiguous();
        });
    folder.keep();
  }

 private:
  static Config config_of(const Checkpoint& checkpoint) {
    if (checkpoint.config().empty())
      input_error("{}: weights without a config; expected a checkpoint of a run or of `plait import`",
                  checkpoint.folder());
    return resolve(parse_config(checkpoint.config(), checkpoint.folder() + "/state.json"));
  }

  // As --dtype says; as it is where that is narrow; as it was published.
  at::ScalarType dtype(const TensorInfo& held) const {
    if (!plan_.dtype.empty()) return *type_named(plan_.dtype);
    if (at::elementSize(held.dtype) == 2 || !with_) return held.dtype;
    const ConfigJson json = ConfigJson::of(*with_);
    return type_named(json.text("dtype", json.text("torch_dtype", ""))).value_or(held.dtype);
  }

  Pieces pieces() const {
    std::map<std::string, const TensorInfo*> held;
    for (const TensorInfo& info : checkpoint_.model()) held[info.name] = &info;
    Pieces all;
    for (const TensorInfo& ours : ours_) {
      int64_t at = 0;
      for (Published& piece : published_in(*family_, ours.name, ours.shape)) {
        int64_t n = 1;
        for (const int64_t size : piece.shape) n *= size;
        all.published.push_back({std::move(piece.name), std::move(piece.shape), dtype(*held.at(ours.name))});
        all.place.emplace_back(&ours, at);
        at += n;
      }
    }
    return all;
  }

  // Verbatim where it says the same; else with what changed.
  void write_config(const std::string& folder, const Pieces& pieces) const {
    const std::string path = folder + "/config.json";
    const at::ScalarType type = pieces.published.front().dtype;
    const auto* named = std::ranges::find(kTypes, type, [](const auto& t) { return t.second; });
    Json json = generated_;
    if (with_) {
      ConfigJson theirs(path, read_text(path)), mine(path, generated_.dump());
      const std::string said = theirs.text("dtype", theirs.text("torch_dtype", "float32"));
      if (said == named->first && meant(theirs) == meant(mine)) return;
      json = theirs.json();
      for (const auto& [key, value] : generated_.items())
        if (key != "max_position_embeddings" && key != "architectures") json[key] = value;
    }
    json["dtype"] = json["torch_dtype"] = named->first;
    fs::remove(path);
    write_text(path, json.dump(2) + "\n");
  }

  Config meant(ConfigJson& json) const { return ready_config("", settings_of(*family_, json).overrides); }

  const Export& plan_;
  Checkpoint checkpoint_;
  Config config_;
  std::optional<std::string> with_;
  const PublishedFamily* family_ = nullptr;
  Json generated_;
  std::vector<TensorInfo> ours_;
};

}  // namespace

void export_model(const Export& plan) try {
  const std::string from = without_slash(plan.from);
  const auto latest = fs::exists(from + "/state.json") ? std::optional(from) : find_latest(from);
  if (!latest) input_error("{}: no checkpoint; expected a run's folder or one step-... folder in it", from);
  Exporter(plan, *latest).write();
} catch (const fs::filesystem_error& error) {
  input_error("cannot export '{}' into '{}': {}", plan.from, plan.to, error.what());
}

}  // namespace plait::hub
