#include "base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace plait {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

JsonLine& JsonLine::add(std::string_view key, std::string_view value) { return put(key, json_quoted(value)); }

JsonLine& JsonLine::number(std::string_view key, double value) {
  return put(key, std::isfinite(value) ? fmt::format("{}", value) : "null");
}

JsonLine& JsonLine::put(std::string_view key, std::string_view json) {
  body_ += fmt::format("{}{}: {}", body_.empty() ? "" : ", ", json_quoted(key), json);
  return *this;
}

JsonObject JsonObject::parse(std::string_view text, std::string where) {
  JsonObject object;
  object.where_ = std::move(where);
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) input_error("{}: expected one JSON object", object.where_);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) {
      object.values_[key] = nullptr;
    } else if (value.is_boolean()) {
      object.values_[key] = value.get<bool>();
    } else if (value.is_number_integer()) {
      object.values_[key] = value.get<int64_t>();
    } else if (value.is_number()) {
      object.values_[key] = value.get<double>();
    } else if (value.is_string()) {
      object.values_[key] = value.get<std::string>();
    } else {
      object.refuse(key, "a number or a word");
    }
  }
  return object;
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

}  // namespace plait
