// Reads TOML and overrides into a Config, and writes it back; see config_keys.cpp for the keys themselves.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "base/table.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_keys.h"

namespace plait {
namespace {

std::string printed(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

// Each takes a value of the file if its type fits, and says whether it did.
bool take(int64_t& field, const Key& key, const toml::node& node) {
  if (const auto* word = node.as_string()) {
    if (key.words.empty() || word->get() != key.words[0]) return false;
    field = 0;
    return true;
  }
  if (!node.is_integer()) return false;
  field = node.as_integer()->get();
  return true;
}

bool take(double& field, const Key&, const toml::node& node) {
  if (!node.is_number()) return false;
  field = *node.value<double>();
  return true;
}

bool take(bool& field, const Key&, const toml::node& node) {
  if (!node.is_boolean()) return false;
  field = node.as_boolean()->get();
  return true;
}

bool take(std::string& field, const Key&, const toml::node& node) {
  if (!node.is_string()) return false;
  field = node.as_string()->get();
  if (!field.starts_with(kBytes)) return true;
  const auto bytes = percent_decoded(std::string_view(field).substr(kBytes.size()));
  if (bytes) field = *bytes;
  return bytes.has_value();
}

bool take(std::optional<double>& field, const Key& key, const toml::node& node) {
  if (const auto* word = node.as_string()) {
    field.reset();
    return word->get() == key.words[0];
  }
  return take(field.emplace(), key, node);
}

bool take(std::array<double, 2>& field, const Key& key, const toml::node& node) {
  const auto* array = node.as_array();
  return array && array->size() == 2 && take(field[0], key, (*array)[0]) && take(field[1], key, (*array)[1]);
}

bool take(std::vector<std::string>& field, const Key& key, const toml::node& node) {
  field.clear();
  const auto* array = node.as_array();
  if (!array) return take(field.emplace_back(), key, node);
  for (const auto& element : *array) {
    if (!take(field.emplace_back(), key, element)) return false;
  }
  return true;
}

bool take(const OneOf& field, const Key& key, const toml::node& node) {
  if (!node.is_string()) return false;
  const auto found = std::ranges::find(key.words, node.as_string()->get());
  if (found == key.words.end()) return false;
  field.take(static_cast<size_t>(found - key.words.begin()));
  return true;
}

bool take(const Slot& slot, const Key& key, const toml::node& node) {
  const auto field = [&](const auto& field) {
    if constexpr (std::is_pointer_v<std::decay_t<decltype(field)>>)
      return take(*field, key, node);
    else
      return take(field, key, node);
  };
  return std::visit(field, slot);
}

// "~" and "~/x": the home folder, and what lies in it.
void expand_home(std::string& path, const std::string& where) {
  if (!path.starts_with("~")) return;
  const char* home = std::getenv("HOME");
  if (path.size() > 1 && path[1] != '/')
    input_error("{}: only ~ and ~/.. are known of home folders; write ./{} for a file of that name", where, path);
  if (!home || !*home) input_error("{}: ~ is the home folder, but HOME says of none; write the path in full", where);
  path.replace(0, 1, home);
}

void expand_home(const Key& key, const std::string& where) {
  if (key.range != Bounds::kPath) return;
  if (const auto* path = std::get_if<std::string*>(&key.slot)) expand_home(**path, where);
  if (const auto* paths = std::get_if<std::vector<std::string>*>(&key.slot))
    for (std::string& path : **paths) expand_home(path, where);
}

// Assigns by name, and remembers which keys were set.
class Reader {
 public:
  explicit Reader(Config& config) : config_(config), keys_(keys_of(config)) {}

  void file(const toml::table& root, const std::string& name) {
    for (const auto& [section, node] : root) {
      const std::string prefix(section.str());
      const auto* table = node.as_table();
      if (!table || !known_section(prefix)) unknown(at(name, node), first_name(prefix, table));
      for (const auto& [key, value] : *table) set(prefix + "." + std::string(key.str()), value, at(name, value));
    }
    for (const std::string& key : set_)
      if (no_effect(config_, key).empty()) of_use_in_file_.insert(key);
  }

  void override_with(const std::string& text) {
    const std::string where = "override " + text;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) input_error("{}: expected section.key=value", where);
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    const toml::table parsed = parse_value(find(name, where), value);
    set(name, *parsed.get("v"), where);
    of_use_in_file_.erase(name);
  }

  // Keys that were set and change nothing get their defaults.
  void end() {
    std::vector<const Key*> idle;
    for (const Key& key : keys_) {
      const std::string why = set_.contains(key.name) ? no_effect(config_, key.name) : "";
      if (why.empty()) continue;
      idle.push_back(&key);
      if (!of_use_in_file_.contains(key.name) && !happens_anyway(config_, key))
        config_.idle.keys.push_back({key.name, why});
    }
    Config defaults = default_config(*config_.catalogue);
    const std::vector<Key> usual = keys_of(defaults);
    for (const Key* key : idle) copy_value(*std::ranges::find(usual, key->name, &Key::name), *key);
  }

 private:
  static std::string at(const std::string& file, const toml::node& node) {
    return fmt::format("{}:{}", file, node.source().begin.line);
  }

  static std::string first_name(const std::string& section, const toml::table* table) {
    return table && !table->empty() ? section + "." + std::string(table->begin()->first.str()) : section;
  }

  static std::string_view tail(std::string_view name) { return name.substr(name.find('.') + 1); }

  bool known_section(const std::string& section) const {
    for (const Key& key : keys_)
      if (key.name.starts_with(section + ".")) return true;
    return false;
  }

  // A bare word needs no quotes on a command line.
  static toml::table parse_value(const Key& key, const std::string& value) {
    const bool wants_words = std::holds_alternative<std::string*>(key.slot) ||
                             std::holds_alternative<std::vector<std::string>*>(key.slot) ||
                             std::holds_alternative<OneOf>(key.slot);
    const bool looks_toml = !value.empty() && std::string_view("[\"'").find(value[0]) != std::string_view::npos;
    if (!wants_words || looks_toml) {
      try {
        return toml::parse("v = " + value);
      } catch (const toml::parse_error&) {
      }
    }
    return toml::table{{"v", value}};
  }

  const Key& find(const std::string& name, const std::string& where) const {
    for (const Key& key : keys_)
      if (key.name == name) return key;
    unknown(where, name);
  }

  [[noreturn]] void unknown(const std::string& where, const std::string& name) const {
    std::vector<std::string> names;
    std::string near;
    for (const Key& key : keys_) {
      names.push_back(key.name);
      if (tail(key.name) == tail(name)) near = key.name;  // the right key without its section, or in another
    }
    if (near.empty()) near = nearest(name, names);
    if (near.empty()) input_error("{}: unknown key {}; `plait config` lists all keys", where, name);
    input_error("{}: unknown key {}; the nearest known key is {}", where, name, near);
  }

  void set(const std::string& name, const toml::node& node, const std::string& where) {
    const Key& key = find(name, where);
    const bool fits = take(key.slot, key, node) && in_range(key);
    if (!fits) input_error("{}: {} = {}, expected {}", where, name, printed(node), expected_text(key));
    expand_home(key, where);
    set_.insert(name);
  }

  Config& config_;
  std::vector<Key> keys_;
  std::set<std::string> set_, of_use_in_file_;
};

// A text of the file, or a line that says what it is instead.
std::string text_of(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) input_error("{}: this is a folder, expected a TOML file", path);
  std::ifstream file(path, std::ios::binary);
  const int failure = errno;
  if (!file) input_error("{}: cannot read this config file: {}", path, std::strerror(failure));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!text.empty()) return text;
  const bool device = std::filesystem::is_character_file(path, unknown);
  input_error("{}: this {} is empty, expected a TOML file; `plait config` lists all keys", path,
              device ? "device" : "config file");
}

}  // namespace

Config default_config(const Catalogue& catalogue) {
  Config config{.catalogue = catalogue};
  config.schedule.moe = &reference_family(config);
  config.moe.gate = catalogue.gates.front();
  config.model.architecture = catalogue.architectures.front();
  return config;
}

std::vector<KeyInfo> config_keys(const Catalogue& catalogue) {
  check_catalogue(catalogue);
  Config defaults = default_config(catalogue);
  std::vector<KeyInfo> infos;
  for (const Key& key : keys_of(defaults)) infos.push_back({key.name, type_text(key), value_text(key), key.meaning});
  return infos;
}

Config parse_config(std::string_view toml, const std::string& file_name, std::span<const std::string> overrides,
                    const Launch& launch, const Catalogue& catalogue) {
  check_catalogue(catalogue);
  Config config = default_config(catalogue);
  Reader reader(config);
  try {
    reader.file(toml::parse(toml), file_name);
  } catch (const toml::parse_error& error) {
    input_error("{}:{}: {}", file_name, error.source().begin.line, error.description());
  }
  for (const std::string& text : overrides) reader.override_with(text);
  fill_from(launch, config);
  reader.end();
  return config;
}

Config load_config(const std::string& path, std::span<const std::string> overrides, const Launch& launch,
                   const Catalogue& catalogue) {
  if (path.empty()) return parse_config("", "", overrides, launch, catalogue);
  return parse_config(text_of(path), path, overrides, launch, catalogue);
}

Config ready_config(const std::string& path, std::span<const std::string> overrides, const Launch& launch,
                    const Catalogue& catalogue) {
  Config config = resolve(load_config(path, overrides, launch, catalogue));
  expect_started(launch, config);
  validate(config);
  return config;
}

std::string to_toml(const Config& config) {
  Config copy = config;
  std::string text, section;
  for (const Key& key : keys_of(copy)) {
    if (!no_effect(copy, key.name).empty()) continue;
    const size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.name.substr(0, dot));
      section = key.name.substr(0, dot);
    }
    text += fmt::format("{} = {}\n", key.name.substr(dot + 1), value_text(key));
  }
  return text;
}

namespace {

ConfigChange::Of what_changes(std::string_view name) {
  const auto is_any = [&](auto... names) { return ((name == names) || ...); };
  if (name.starts_with("model.") || name.starts_with("moe.")) return ConfigChange::Of::model;
  const bool data = is_any("data.validation", "train.seed", "train.batch_size", "train.seq_length");
  return data ? ConfigChange::Of::data : ConfigChange::Of::run;
}

}  // namespace

std::vector<ConfigChange> config_changes(Config before, Config now) {
  std::vector<ConfigChange> changes;
  const std::vector<Key> old_keys = keys_of(before), keys = keys_of(now);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string& name = keys[i].name;
    const std::string was = value_text(old_keys[i]), is = value_text(keys[i]);
    const bool matters = no_effect(before, name).empty() || no_effect(now, name).empty();
    if (was != is && matters) changes.push_back({name, was, is, what_changes(name)});
  }
  return changes;
}

std::string config_table(const Config& config) {
  Config copy = config;
  Table table({"key", "value", "meaning"});
  for (const Key& key : keys_of(copy)) {
    if (no_effect(copy, key.name).empty()) table.row({key.name, value_text(key), key.meaning});
  }
  return table.str();
}

}  // namespace plait
