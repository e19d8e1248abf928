#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace plait {
namespace {

std::string number_text(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

}  // namespace

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonLine& JsonLine::add(std::string_view key, std::string_view value) { return put(key, json_quoted(value)); }

JsonLine& JsonLine::add(std::string_view key, std::span<const double> values) {
  std::string list;
  for (double value : values) list += (list.empty() ? "" : ", ") + number_text(value);
  return put(key, "[" + list + "]");
}

JsonLine& JsonLine::add(std::string_view key, std::span<const JsonLine> objects) {
  std::string list;
  for (const JsonLine& object : objects) list += (list.empty() ? "" : ", ") + object.str();
  return put(key, "[" + list + "]");
}

JsonLine& JsonLine::number(std::string_view key, double value) { return put(key, number_text(value)); }

JsonLine& JsonLine::put(std::string_view key, std::string_view json) {
  body_ += fmt::format("{}{}: {}", body_.empty() ? "" : ", ", json_quoted(key), json);
  return *this;
}

struct JsonObject::Reader {
  const std::string& where;

  JsonObject object(const nlohmann::json& json) const {
    JsonObject object;
    object.where_ = where;
    for (const auto& [key, value] : json.items()) object.values_[key] = read(key, value);
    return object;
  }

 private:
  Value read(const std::string& key, const nlohmann::json& value) const {
    if (value.is_null()) return nullptr;
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return value.get<int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array() && std::ranges::all_of(value, [](const auto& x) { return x.is_number(); }))
      return value.get<std::vector<double>>();
    if (!value.is_array() || !std::ranges::all_of(value, [](const auto& x) { return x.is_object(); }))
      input_error("{}: \"{}\" must be a number, a word, or a list of numbers or of objects", where, key);
    std::vector<JsonObject> objects;
    for (const nlohmann::json& element : value) objects.push_back(object(element));
    return objects;
  }
};

JsonObject JsonObject::parse(std::string_view text, std::string where) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) input_error("{}: expected one JSON object", where);
  return Reader{where}.object(json);
}

const JsonObject::Value& JsonObject::at(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) input_error("{}: \"{}\" is missing", where_, key);
  return found->second;
}

void JsonObject::refuse(const std::string& key, std::string_view expected) const {
  input_error("{}: \"{}\" must be {}", where_, key, expected);
}

double JsonObject::number(const std::string& key) const {
  const Value& value = at(key);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (std::holds_alternative<std::nullptr_t>(value)) return std::numeric_limits<double>::quiet_NaN();
  refuse(key, "a number");
}

int64_t JsonObject::integer(const std::string& key) const {
  if (const auto* integer = std::get_if<int64_t>(&at(key))) return *integer;
  refuse(key, "an integer");
}

const std::string& JsonObject::text(const std::string& key) const {
  if (const auto* text = std::get_if<std::string>(&at(key))) return *text;
  refuse(key, "a word in quotes");
}

const std::vector<double>& JsonObject::numbers(const std::string& key) const {
  if (const auto* numbers = std::get_if<std::vector<double>>(&at(key))) return *numbers;
  refuse(key, "a list of numbers");
}

const std::vector<JsonObject>& JsonObject::objects(const std::string& key) const {
  if (const auto* objects = std::get_if<std::vector<JsonObject>>(&at(key))) return *objects;
  refuse(key, "a list of objects");
}

}  // namespace plait
