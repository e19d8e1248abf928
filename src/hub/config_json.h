// A config.json of Hugging Face's transformers, key by key; and settings of ours as a config file says them.
#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plait::hub {

using Json = nlohmann::ordered_json;

// "section.key", and the value in TOML.
struct Settings {
  std::vector<std::string> overrides;  // "model.hidden_size=64"
  std::vector<std::string> notes;      // what a person should know, a line each

  void set(std::string_view key, int64_t value);
  void set(std::string_view key, double value);
  void set(std::string_view key, bool value);
  void set(std::string_view key, std::string_view word);
  void set(std::string_view key, const std::vector<int64_t>& values);
};

// Every fault is an InputError in one line: the file, the key, what it says, what was expected.
class ConfigJson {
 public:
  ConfigJson(std::string path, std::string_view text);
  static ConfigJson of(const std::string& folder);  // reads FOLDER/config.json

  const std::string& path() const { return path_; }
  const Json& json() const { return *json_; }
  bool has(std::string_view key) const;  // and it is not null

  int64_t integer(std::string_view key, std::optional<int64_t> otherwise = {}) const;
  double number(std::string_view key, std::optional<double> otherwise = {}) const;
  bool says_yes(std::string_view key) const;  // and not where it says nothing
  bool says_no(std::string_view key) const;
  std::string text(std::string_view key, std::optional<std::string> otherwise = {}) const;
  std::vector<int64_t> integers(std::string_view key) const;  // empty: there are none

  // An object within, by the same rules; an empty one where it is not there.
  ConfigJson object(std::string_view key) const;

  [[noreturn]] void refuse(std::string_view key, std::string_view why) const;  // "PATH: "key" = value: why"

 private:
  const Json& at(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, std::string_view expected) const;

  std::string path_;
  std::shared_ptr<const Json> json_;
};

}  // namespace plait::hub
