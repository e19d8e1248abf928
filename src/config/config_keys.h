// The one table of configuration keys, bound to the fields of one Config. Of use to config*.cpp only.
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace plait {

enum class Bounds {
  kAny,
  kCount,        // 1 .. 2^31
  kCountOrZero,  // 0 .. 2^31
  kPositive,     // above 0, finite
  kNotNegative,  // 0 or more, finite
  kFraction,     // 0 or more, below 1
};

using Slot = std::variant<int64_t*, double*, bool*, std::string*, std::optional<double>*, std::array<double, 2>*,
                          std::vector<std::string>*>;

struct Key {
  std::string name;  // "section.key"
  Slot slot;
  Bounds range;
  std::string meaning;
  std::vector<std::string> words;  // of a string: all it may be; of a number: the one word that means 0 or empty
};

// In the order of listing and saving. The pointers live as long as `config`.
std::vector<Key> keys_of(Config& config);

std::string type_text(const Key& key);      // `integer`, `"silu" | "gelu" | "relu"`
std::string expected_text(const Key& key);  // `an integer of at least 1`
std::string value_text(const Key& key);     // the value in TOML

// Whether the value stands in the key's range and among its words.
bool in_range(const Key& key);

// The mesh of the resolved config.
MeshConfig mesh_to_be(Config config);

// Why a key changes nothing in this configuration; empty if it does.
std::string no_effect(const Config& config, std::string_view name);

}  // namespace plait
