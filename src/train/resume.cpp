#include "train/resume.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <vector>

#include "base/errors.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

Config config_of(const Checkpoint& checkpoint, const Catalogue& catalogue) {
  return resolve(parse_config(checkpoint.config(), checkpoint.folder() + "/state.json", {}, {}, catalogue));
}

std::string texts(const std::vector<ConfigChange>& changes) {
  std::vector<std::string> all;
  for (const ConfigChange& c : changes) all.push_back(fmt::format("{} {} -> {}", c.name, c.before, c.now));
  return fmt::format("{}", fmt::join(all, ", "));
}

// What makes another run of it.
std::vector<ConfigChange> grave(const std::vector<ConfigChange>& changes) {
  std::vector<ConfigChange> all;
  for (const ConfigChange& c : changes)
    if (c.of != ConfigChange::Of::run) all.push_back(c);
  return all;
}

// Under which path the text lies says nothing; older checkpoints know nothing else.
void compare_text(const Checkpoint& checkpoint, const std::string& text, std::vector<ConfigChange>& changes) {
  const JsonObject& state = checkpoint.json();
  const bool known = state.has("text");
  if (known && state.text("text") != text)
    changes.push_back({"the text of data.path", state.text("text"), text, ConfigChange::Of::data});
  for (ConfigChange& c : changes)
    if (!known && c.name == "data.path") c.of = ConfigChange::Of::data;
}

}  // namespace

std::optional<Checkpoint> checkpoint_of(const Config& config, const std::string& text, GoOn go_on, const Note& note) {
  const auto folder = find_latest(config.log.dir);
  if (!folder) return {};
  Checkpoint checkpoint(*folder);
  std::vector<ConfigChange> changes = config_changes(config_of(checkpoint, *config.catalogue), config);
  compare_text(checkpoint, text, changes);
  if (const auto others = grave(changes); !others.empty() && go_on == GoOn::as_it_was)
    input_error(
        "{} was made with another model, text or order of the data ({}): set it back, choose another log.dir, begin "
        "with its weights (train.init={}), or go on all the same with --force",
        *folder, texts(others), *folder);
  if (!changes.empty()) note(fmt::format("changed since {}: {}", *folder, texts(changes)));
  return checkpoint;
}

std::optional<Checkpoint> weights_of(const Config& config, const Note& note) {
  const std::string& path = config.train.init;
  if (path == "none") return {};
  Checkpoint weights = Checkpoint::weights(path);
  note(fmt::format("begins with the weights of {}", weights.folder()));
  if (weights.config().empty()) return weights;
  std::vector<ConfigChange> changes;
  for (const ConfigChange& c : config_changes(config_of(weights, *config.catalogue), config))
    if (c.of == ConfigChange::Of::model) changes.push_back(c);
  if (!changes.empty()) note(fmt::format("which were trained as another model: {}", texts(changes)));
  return weights;
}

}  // namespace plait
