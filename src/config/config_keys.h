// The one table of configuration keys, bound to the fields of one Config. Of use to config*.cpp only.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"

namespace plait {

// A word that begins so stands for bytes, written as percent_encoded does: a path need not be a text.
inline constexpr std::string_view kBytes = "bytes:";

enum class Bounds {
  kAny,
  kPath,         // any word; ~ at its beginning is the home folder
  kCount,        // 1 .. 2^31
  kCountOrZero,  // 0 .. 2^31
  kRanks,        // 1 .. 2^20
  kRanksOrZero,  // 0 .. 2^20
  kPositive,     // above 0, finite
  kNotNegative,  // 0 or more, finite
  kFraction,     // 0 or more, below 1
};

// A field that holds one of several things that have names: an enum's values, or the records of a catalogue.
struct OneOf {
  std::function<std::string()> name;      // of what it holds
  std::function<void(size_t word)> take;  // by the place in Key::words
};

using Slot = std::variant<int64_t*, double*, bool*, std::string*, std::optional<double>*, std::array<double, 2>*,
                          std::vector<std::string>*, OneOf>;

struct Key {
  std::string name;  // "section.key"
  Slot slot;
  Bounds range;
  std::string meaning;
  std::vector<std::string> words;  // all it may be; of a number: the one word that means 0 or empty
};

// A key that says one of an enum's names, from `first` on.
template <class E>
Key key_of(std::string name, E& field, std::string meaning, size_t first = 0) {
  const auto& names = EnumNames<E>::names;
  return {std::move(name),
          OneOf{[&field] { return std::string(word(field)); },
                [&field, first](size_t i) { field = static_cast<E>(i + first); }},
          Bounds::kAny,
          std::move(meaning),
          {names.begin() + first, names.end()}};
}

// A key that names one of a catalogue's records, or says the word that means none of them.
template <class Spec>
Key key_of(std::string name, const Spec*& field, const std::vector<const Spec*>& all, std::string meaning,
           std::string_view none = {}) {
  Key key{std::move(name),
          OneOf{[&field, none] { return std::string(field ? field->name : none); },
                [&field, all](size_t i) { field = i < all.size() ? all[i] : nullptr; }},
          Bounds::kAny,
          std::move(meaning),
          {}};
  for (const Spec* spec : all) key.words.emplace_back(spec->name);
  if (!none.empty()) key.words.emplace_back(none);
  return key;
}

// In the order of listing and saving. The pointers live as long as `config`.
std::vector<Key> keys_of(Config& config);

// "s2 slices": the families that slice rows.
std::string slicers(const Config& config);

std::string type_text(const Key& key);      // `integer`, `"silu" | "gelu" | "relu"`
std::string expected_text(const Key& key);  // `an integer of 1 to 2147483648`
std::string value_text(const Key& key);     // the value in TOML

// Whether the value stands in the key's range and among its words.
bool in_range(const Key& key);

// Gives a key the value that the same key of another config has.
void copy_value(const Key& from, const Key& to);

// What a launcher's ranks say of the mesh, where it was left open.
void fill_from(const Launch& launch, Config& config);

// InputError where experts cannot be shared out among the ranks that a launcher started.
void expect_started(const Launch& launch, const Config& config);

// The mesh of the resolved config.
MeshConfig mesh_to_be(Config config);

// Why a key changes nothing in this configuration; empty if it does.
std::string no_effect(const Config& config, std::string_view name);

// Whether a key without effect says what happens anyway: its default, what would be derived, or what is so here.
bool happens_anyway(const Config& config, const Key& key);

// The config of an empty file: of each list of the catalogue the first.
Config default_config(const Catalogue& catalogue);

// The most ranks that a layout may have.
inline constexpr int64_t kMostRanks = int64_t{1} << 20;

}  // namespace plait
