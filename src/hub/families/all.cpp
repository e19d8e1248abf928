#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "hub/families/families.h"

namespace plait::hub {
namespace {

std::vector<std::string_view> model_types() {
  std::vector<std::string_view> names;
  for (const PublishedFamily* family : all_families()) names.push_back(family->model_type);
  return names;
}

}  // namespace

std::span<const PublishedFamily* const> all_families() {
  static constexpr const PublishedFamily* kAll[] = {&llama, &mistral, &mixtral, &qwen2_moe, &qwen3_moe, &olmoe};
  return kAll;
}

const PublishedFamily& family_of(ConfigJson& json) {
  const std::string type = json.text("model_type");
  for (const PublishedFamily* family : all_families())
    if (family->model_type == type) return *family;
  json.refuse("model_type", fmt::format("Plait reads {}", fmt::join(model_types(), ", ")));
}

const PublishedFamily& family_of(const Config& c, std::string_view like) {
  const bool dense = num_expert_layers(c) == 0;
  std::vector<const PublishedFamily*> fit;
  for (const PublishedFamily* family : all_families()) {
    const bool is_dense = family == &llama || family == &mistral;
    if (family->architecture == c.model.architecture && is_dense == dense) fit.push_back(family);
  }
  if (fit.empty())
    input_error("model.architecture = \"{}\"{} has no family of transformers to be written as: there are {}",
                c.model.architecture->name, dense ? " without experts" : "", fmt::join(model_types(), ", "));
  const auto found = std::ranges::find(fit, like, &PublishedFamily::model_type);
  if (found != fit.end()) return **found;
  return dense && c.model.sliding_window > 0 ? mistral : *fit.front();
}

}  // namespace plait::hub
