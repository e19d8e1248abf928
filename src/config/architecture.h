// What an architecture is to a config: its name, the keys that it reads, the layouts that it cannot run at. How it is
// written stands in the room model.
#pragma once
#include <span>
#include <string_view>
#include <vector>

namespace plait {

struct ArchitectureCode;
struct Config;

struct Architecture {
  std::string_view name;                   // in model.architecture
  std::string_view help;                   // one line
  std::span<const std::string_view> keys;  // of the section model, those that have an effect: "model.hidden_size"
  void (*check)(const Config&);            // of a resolved config; throws InputError
  const ArchitectureCode* code = nullptr;  // of one from outside; Plait's own stand in model/architectures by name

  bool reads(std::string_view key) const;
};

namespace architectures {

extern const Architecture mixtral;

// Those of Plait. The first one is what a config gets that names none.
const std::vector<const Architecture*>& all();

}  // namespace architectures
}  // namespace plait
