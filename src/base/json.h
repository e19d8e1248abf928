// One JSON object a line: what metrics.jsonl holds, and the small state beside a checkpoint's tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace plait {

// Writes `{"loss": 1.2, "step": 3}` in the order of the calls. Doubles print shortest and read back to the same bits;
// NaN and infinities, which JSON lacks, become null.
class JsonLine {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> JsonLine& add(std::string_view key, T value) {
    if constexpr (std::is_floating_point_v<T>) return number(key, static_cast<double>(value));
    if constexpr (std::is_same_v<T, bool>) return put(key, value ? "true" : "false");
    return put(key, std::to_string(value));
  }
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, std::span<const double> values);
  JsonLine& add(std::string_view key, std::span<const JsonLine> objects);

  std::string str() const { return "{" + body_ + "}"; }  // without a newline

 private:
  JsonLine& number(std::string_view key, double value);
  JsonLine& put(std::string_view key, std::string_view json);
  std::string body_;
};

// An object: numbers, words, booleans, null, lists of numbers and lists of such objects by name. A missing name or one
// of another kind is an InputError that names the file.
class JsonObject {
 public:
  // `where` is the name a message gives to the text. What is nested otherwise is refused.
  static JsonObject parse(std::string_view text, std::string where);

  bool has(const std::string& key) const { return values_.contains(key); }
  double number(const std::string& key) const;  // NaN where the file says null
  int64_t integer(const std::string& key) const;
  const std::string& text(const std::string& key) const;
  const std::vector<double>& numbers(const std::string& key) const;
  const std::vector<JsonObject>& objects(const std::string& key) const;

 private:
  struct Reader;
  using Value =
      std::variant<std::nullptr_t, bool, int64_t, double, std::string, std::vector<double>, std::vector<JsonObject>>;
  const Value& at(const std::string& key) const;
  [[noreturn]] void refuse(const std::string& key, std::string_view expected) const;
  std::map<std::string, Value> values_;
  std::string where_;
};

// A word in quotes, with what JSON wants escaped.
std::string json_quoted(std::string_view text);

}  // namespace plait
