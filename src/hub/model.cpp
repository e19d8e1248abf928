#include "hub/model.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "base/errors.h"
#include "base/files.h"
#include "base/random.h"
#include "model/model.h"

namespace plait::hub {
namespace {

Settings with_experts(Settings s, const ConfigJson& json, const Upcycling& up) {
  if (up.experts == 0) return s;
  if (!std::ranges::count(s.overrides, "moe.every=0"))
    json.refuse("model_type", "it has experts; --experts makes them of a dense model's feed-forward");
  std::erase(s.overrides, "moe.every=0");
  s.set("moe.every", int64_t{1});
  s.set("moe.num_experts", up.experts);
  s.set("moe.num_experts_per_tok", up.top_k);
  s.set("moe.gate", std::string_view("softmax"));
  s.set("moe.normalize", std::string_view("before"));
  return s;
}

std::vector<int64_t> sizes(const std::vector<Dim>& dims) {
  std::vector<int64_t> all;
  for (const Dim& dim : dims) all.push_back(dim.size);
  return all;
}

}  // namespace

bool is_published(const std::string& folder) try {
  return std::filesystem::is_regular_file(folder + "/config.json") && ConfigJson::of(folder).has("model_type");
} catch (const InputError&) {
  return false;
}

std::vector<TensorInfo> tensors_of(const Config& config) {
  Config one = config;
  one.mesh = {.esp = 1, .dp = 1, .node = 1, .threads = 1};
  one.train.batch_size = one.train.micro_batch_size = one.train.seq_length = 1;
  one.moe.capacity.reset();
  one.schedule = {};
  std::vector<TensorInfo> all;
  for (const Parameter& p : build_model(Mesh{}, model_sizes(one)).parameters)
    all.push_back({.name = p.name, .shape = sizes(p.dims), .dtype = at::kFloat});
  return all;
}

Model::Model(const std::string& folder, Upcycling upcycling)
    : folder_(folder),
      upcycling_(upcycling),
      json_(ConfigJson::of(folder)),
      family_(&hub::family_of(json_)),
      settings_(with_experts(settings_of(*family_, json_), json_, upcycling)),
      shards_(folder) {}

Config Model::config(std::vector<std::string> overrides) const {
  std::vector<std::string> all = settings_.overrides;
  all.insert(all.end(), overrides.begin(), overrides.end());
  return ready_config("", all);
}

bool Model::is_made(const std::string& name, std::string_view part) const {
  return upcycling_.experts > 0 && name.ends_with(part);
}

// A tensor that is fused where it was published (transformers 5) lies there under our name.
std::vector<Published> Model::pieces(const TensorInfo& ours) const {
  if (is_made(ours.name, ".mlp.gate.weight")) return {};
  TensorInfo dense = ours;
  for (const char* part : {"gate_up_proj", "down_proj"})
    if (is_made(ours.name, fmt::format(".mlp.experts.{}", part))) {
      dense.name.replace(dense.name.find("experts."), std::string::npos, fmt::format("{}.weight", part));
      dense.shape.erase(dense.shape.begin());
    }
  std::vector<Published> all = published_in(*family_, dense.name, dense.shape);
  if (shards_.has(all.front().name) || !shards_.has(ours.name) || all.size() == 1) return all;
  std::vector<int64_t> fused = ours.shape;
  if (fused.size() == 4) fused = {fused[0], fused[1] * fused[2], fused[3]};
  return {{ours.name, fused}};
}

void Model::require(std::span<const TensorInfo> ours) const {
  const std::vector<std::string> names = shards_.names();
  std::set<std::string> unused(names.begin(), names.end());
  for (const TensorInfo& tensor : ours)
    for (const Published& piece : pieces(tensor)) {
      if (!shards_.has(piece.name))
        input_error("{}: holds no tensor '{}', which a {} of its config.json has", folder_, piece.name,
                    family_->model_type);
      const TensorInfo& info = shards_.info(piece.name);
      if (info.shape != piece.shape)
        input_error("{}: tensor '{}' is [{}]; expected [{}] by config.json", shards_.file_of(piece.name), piece.name,
                    fmt::join(info.shape, ", "), fmt::join(piece.shape, ", "));
      if (info.dtype == at::ScalarType::Undefined || !at::isFloatingType(info.dtype))
        input_error(
            "{}: tensor '{}' has numbers of a type that Plait does not read as weights; expected F64, F32, F16 "
            "or BF16",
            shards_.file_of(piece.name), piece.name);
      unused.erase(piece.name);
    }
  const bool tied = json_.says_yes("tie_word_embeddings");
  for (const std::string& name : unused)
    if (!says_nothing(name) && !(tied && name == "lm_head.weight"))
      input_error("{}: tensor '{}' is unknown to a {} of its config.json", shards_.file_of(name), name,
                  family_->model_type);
}

at::ScalarType Model::dtype(const TensorInfo& ours) const {
  at::ScalarType widest = at::ScalarType::Undefined;
  for (const Published& piece : pieces(ours)) {
    const at::ScalarType one = shards_.info(piece.name).dtype;
    widest = widest == at::ScalarType::Undefined ? one : c10::promoteTypes(widest, one);
  }
  return widest == at::ScalarType::Undefined ? at::kFloat : widest;
}

namespace {

// Draws of a unit normal by name and index.
at::Tensor drawn(const std::string& name, const std::vector<int64_t>& shape) {
  const at::Tensor all = at::empty(shape, at::kFloat);
  float* out = all.mutable_data_ptr<float>();
  const uint64_t key = hash_name({name.data(), name.size()});
  for (int64_t i = 0; i < all.numel(); ++i) out[i] = static_cast<float>(normal(key, static_cast<uint64_t>(i)));
  return all;
}

}  // namespace

at::Tensor Model::made_experts(const TensorInfo& ours) const {
  TensorInfo one = ours;
  one.shape.erase(one.shape.begin());
  std::vector<at::Tensor> parts;
  for (const Published& piece : pieces(ours)) parts.push_back(shards_.read(piece.name).flatten());
  const at::Tensor dense = at::cat(parts).view(one.shape);
  const at::Tensor all = at::empty(ours.shape, dense.scalar_type());
  const double deviation = upcycling_.noise * dense.to(at::kDouble).std().item<double>();
  for (int64_t e = 0; e < ours.shape.front(); ++e) {
    const at::Tensor expert = all.select(0, e);
    expert.copy_(dense);
    if (deviation > 0) expert.add_(drawn(fmt::format("{}.{}", ours.name, e), one.shape).mul_(deviation));
  }
  return all;
}

at::Tensor Model::read(const TensorInfo& ours) const {
  if (is_made(ours.name, ".mlp.gate.weight")) return drawn(ours.name, ours.shape).mul_(0.02);
  if (is_made(ours.name, ".mlp.experts.gate_up_proj") || is_made(ours.name, ".mlp.experts.down_proj"))
    return made_experts(ours);
  const std::vector<Published> all = pieces(ours);
  if (all.size() == 1) return shards_.read(all.front().name).view(ours.shape);
  const at::Tensor whole = at::empty(ours.shape, dtype(ours));
  const at::Tensor flat = whole.view({-1});
  int64_t at = 0;
  for (const Published& piece : all) {
    const at::Tensor part = shards_.read(piece.name).flatten();
    flat.narrow(0, at, part.numel()).copy_(part);
    at += part.numel();
  }
  return whole;
}

Weights weights_of(Model model) {
  const auto held = std::make_shared<const Model>(std::move(model));
  return {.folder = held->folder(),
          .config = to_toml(held->config()),
          .require = [held](std::span<const TensorInfo> expected) { held->require(expected); },
          .read = [held](const TensorInfo& info) { return held->read(info); }};
}

}  // namespace plait::hub
