#include "hub/config_json.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"

namespace plait::hub {

void Settings::set(std::string_view key, int64_t value) { overrides.push_back(fmt::format("{}={}", key, value)); }
void Settings::set(std::string_view key, double value) {
  const std::string text = fmt::format("{}", value);
  overrides.push_back(fmt::format("{}={}{}", key, text, text.find_first_of(".en") == std::string::npos ? ".0" : ""));
}
void Settings::set(std::string_view key, bool value) { overrides.push_back(fmt::format("{}={}", key, value)); }
void Settings::set(std::string_view key, std::string_view word) {
  overrides.push_back(fmt::format("{}={}", key, json_quoted(std::string(word))));
}
void Settings::set(std::string_view key, const std::vector<int64_t>& values) {
  overrides.push_back(fmt::format("{}=[{}]", key, fmt::join(values, ", ")));
}

ConfigJson::ConfigJson(std::string path, std::string_view text)
    : path_(std::move(path)), json_(std::make_shared<const Json>(Json::parse(text, nullptr, false))) {
  if (!json_->is_object()) input_error("{}: expected one JSON object, the config of a model", path_);
}

ConfigJson ConfigJson::of(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return {path, read_text(path)};
}

bool ConfigJson::has(std::string_view key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const Json& ConfigJson::at(std::string_view key) const {
  if (!has(key)) input_error("{}: \"{}\" is missing", path_, key);
  return *json_->find(key);
}

void ConfigJson::refuse(std::string_view key, std::string_view why) const {
  const auto found = json_->find(key);
  const std::string value =
      found == json_->end() ? "null" : found->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80);
  input_error("{}: \"{}\" = {}: {}", path_, key, value, why);
}

void ConfigJson::wrong_type(std::string_view key, std::string_view expected) const {
  refuse(key, fmt::format("expected {}", expected));
}

int64_t ConfigJson::integer(std::string_view key, std::optional<int64_t> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const Json& value = at(key);
  if (!value.is_number_integer() || value < 0 || value > (int64_t{1} << 40)) wrong_type(key, "a whole number");
  return value.get<int64_t>();
}

double ConfigJson::number(std::string_view key, std::optional<double> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const Json& value = at(key);
  if (!value.is_number()) wrong_type(key, "a number");
  return value.get<double>();
}

bool ConfigJson::says_yes(std::string_view key) const {
  if (has(key) && !at(key).is_boolean()) wrong_type(key, "true or false");
  return has(key) && at(key).get<bool>();
}

bool ConfigJson::says_no(std::string_view key) const { return has(key) && !says_yes(key); }

std::string ConfigJson::text(std::string_view key, std::optional<std::string> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  if (!at(key).is_string()) wrong_type(key, "a word");
  return at(key).get<std::string>();
}

std::vector<int64_t> ConfigJson::integers(std::string_view key) const {
  std::vector<int64_t> all;
  if (!has(key)) return all;
  if (!at(key).is_array()) wrong_type(key, "a list of whole numbers");
  for (const Json& value : at(key)) {
    if (!value.is_number_integer() || value < 0) wrong_type(key, "a list of whole numbers");
    all.push_back(value.get<int64_t>());
  }
  return all;
}

ConfigJson ConfigJson::object(std::string_view key) const {
  if (!has(key)) return {path_, "{}"};
  if (!at(key).is_object()) wrong_type(key, "an object");
  return {fmt::format("{}: {}", path_, key), at(key).dump(-1, ' ', true, Json::error_handler_t::replace)};
}

}  // namespace plait::hub
