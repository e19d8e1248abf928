#include "train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "base/random.h"
#include "base/text.h"
#include "machine/machine_file.h"
#include "schedule/text.h"
#include "train/texts.h"

namespace plait {
namespace {

constexpr size_t kLongest = 120;  // letters of a value that a message shows

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The entries of a TOML text that this program wrote.
std::vector<AgreedEntry> entries_of(const std::string& toml) {
  std::vector<AgreedEntry> entries;
  std::string section;
  for (const std::string& line : lines_of(toml)) {
    if (line.empty() || line.starts_with('#')) continue;
    const size_t equals = line.find(" = ");
    if (line.starts_with('['))
      section = line.substr(line.find_first_not_of('['), line.find(']') - line.find_first_not_of('[')) + ".";
    else if (equals != std::string::npos)
      entries.push_back({section + line.substr(0, equals), line.substr(equals + 3)});
    else
      entries.push_back({section + "a row of a list", line});
  }
  return entries;
}

std::string flat(const AgreedSection& section) {
  std::string text;
  for (const AgreedEntry& e : section.entries) text += e.name + '\0' + e.value + '\0';
  return text;
}

std::vector<AgreedEntry> entries_from(const std::string& flat) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < flat.size(); at = flat.find('\0', at) + 1)
    parts.push_back(flat.substr(at, flat.find('\0', at) - at));
  std::vector<AgreedEntry> entries;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) entries.push_back({parts[i], parts[i + 1]});
  return entries;
}

// "rank 3", "ranks 0-2, 5"
std::string rank_names(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(last == i ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", join(runs, ", "));
}

std::string shown(const std::string& value) {
  return value.size() <= kLongest ? value : value.substr(0, kLongest) + "...";
}

// One line about the first entry that is not the same everywhere.
[[noreturn]] void tell(const std::string& title, const std::vector<std::string>& texts, const std::vector<int>& ranks) {
  std::vector<std::vector<AgreedEntry>> all;
  size_t most = 0;
  for (const std::string& text : texts) {
    all.push_back(entries_from(text));
    most = std::max(most, all.back().size());
  }
  for (size_t i = 0; i < most; ++i) {
    std::map<std::string, std::vector<int>> having;
    std::string name;
    for (size_t m = 0; m < all.size(); ++m) {
      const bool has = i < all[m].size();
      if (has && name.empty()) name = all[m][i].name;
      const std::string value = !has                     ? "nothing"
                                : all[m][i].name == name ? all[m][i].value
                                                         : all[m][i].name + " instead";
      having[value].push_back(ranks[m]);
    }
    if (having.size() == 1) continue;
    std::vector<std::pair<std::vector<int>, std::string>> groups;
    for (const auto& [value, who] : having) groups.push_back({who, value});
    std::ranges::stable_sort(groups, [](const auto& a, const auto& b) {
      return a.first.size() != b.first.size() ? a.first.size() < b.first.size() : a.first > b.first;
    });
    std::vector<std::string> parts;
    for (const auto& [who, value] : groups)
      parts.push_back(fmt::format("{} {} {}{}", rank_names(who), who.size() == 1 ? "has" : "have",
                                  parts.empty() ? name + " = " : "", shown(value)));
    input_error("agreement: {} ({}); start all ranks with the same files and the same command", join(parts, ", "),
                title);
  }
  throw ContractError("agreement: hashes differ, entries do not");
}

}  // namespace

std::vector<AgreedSection> what_ranks_share(const Planned& run, const TrainingStep& step) {
  const Config& config = run.config;
  AgreedSection keys{"config", entries_of(to_toml(config))};
  std::erase_if(keys.entries, [](const AgreedEntry& e) { return e.name == "schedule.machine"; });
  AgreedSection machine{"machine", entries_of(to_toml(run.machine))};
  AgreedSection parameters{"parameters", {}}, list{"schedule", {}};
  const Mesh& mesh = step.schedule.mesh;
  for (const Parameter& p : step.parameters) {
    const Leaf* leaf = step.schedule.leaf(step.schedule.find(p.name));
    parameters.entries.push_back(
        {p.name, fmt::format("{}, stored as {}, {}, seed {}", to_string(mesh, p.dims), to_string(mesh, leaf->type),
                             to_string(p.init), config.train.seed)});
  }
  int line = 0;
  for (std::string& text : lines_of(print(step.schedule)))
    list.entries.push_back({fmt::format("line {} of the list", ++line), std::move(text)});
  return {std::move(keys), std::move(machine), std::move(parameters), std::move(list)};
}

void agree(wire::Group& everyone, const std::vector<AgreedSection>& mine) {
  for (const AgreedSection& section : mine) {
    const std::string text = flat(section);
    const std::vector<uint64_t> hashes = numbers_of_all(everyone, hash_name(text));
    if (std::ranges::adjacent_find(hashes, std::not_equal_to{}) == hashes.end()) continue;
    tell(section.title, texts_of_all(everyone, text), everyone.ranks());
  }
}

}  // namespace plait
