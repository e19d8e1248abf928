#include "bench/grid_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "base/statistics.h"
#include "config/catalogue.h"
#include "families/all.h"
#include "families/family.h"

namespace plait {
namespace {

constexpr double kNear = 0.03;

struct Pair {
  int tp, esp;
  auto operator<=>(const Pair&) const = default;
  bool one() const { return tp == 1 || esp == 1; }
};
using ByPair = std::map<Pair, std::vector<const GridResult*>>;

ByPair by_pair(const GridTable& table) {
  ByPair all;
  for (const GridResult& result : table.results) all[{result.layer.tp, result.layer.esp}].push_back(&result);
  return all;
}

// Pairs, and what is told of several pairs together.
struct Group {
  GridGroup told;
  std::vector<Pair> pairs;
};

std::vector<Group> groups_of(const ByPair& pairs) {
  std::vector<Group> groups;
  constexpr auto several = GridGroup::Of::several;
  Group one{{"tp or esp 1", several}, {}}, both{{"tp and esp 2 or more", several}, {}}, all{{"all", several}, {}};
  for (const auto& [pair, results] : pairs) {
    groups.emplace_back().pairs.push_back(pair);
    groups.back().told.name = fmt::format("tp {}, esp {}", pair.tp, pair.esp);
    (pair.one() ? one : both).pairs.push_back(pair);
    all.pairs.push_back(pair);
  }
  for (const Group& group : {one, both, all})
    if (!group.pairs.empty()) groups.push_back(group);
  return groups;
}

std::vector<const GridResult*> results_of(const ByPair& pairs, const Group& group) {
  std::vector<const GridResult*> all;
  for (const Pair& pair : group.pairs) {
    const auto& results = pairs.at(pair);
    all.insert(all.end(), results.begin(), results.end());
  }
  return all;
}

// "auto 2": measured to find out whether auto chose well.
bool runner_up(const std::string& variant) { return variant.starts_with("auto "); }

// Families that never fuse, those that do, fused and not, and ours; what else there is follows as it comes.
std::vector<std::string> variants_of(const GridTable& table) {
  std::vector<std::string> names;
  const auto add = [&](FamilySpec::Fuses fuses, std::string_view after) {
    for (const FamilySpec* family : usual_last())
      if (family->fuses == fuses) names.push_back(fmt::format("{}{}", family->name, after));
  };
  add(FamilySpec::Fuses::never, "");
  for (FamilySpec::Fuses fuses : {FamilySpec::Fuses::usually, FamilySpec::Fuses::if_asked})
    for (std::string_view after : {" fused", ""}) add(fuses, after);
  names.insert(names.end(), {std::string(kPredicted), "auto"});
  std::vector<std::string> found;
  for (const GridResult& result : table.results)
    for (const GridRow& row : result.rows) {
      if (runner_up(row.variant)) continue;
      found.push_back(row.variant);
      if (std::ranges::find(names, row.variant) == names.end()) names.push_back(row.variant);
    }
  std::erase_if(names, [&](const std::string& name) { return std::ranges::find(found, name) == found.end(); });
  return names;
}

std::vector<double> quotients(const std::vector<const GridResult*>& results, std::string_view over,
                              std::string_view variant) {
  std::vector<double> values;
  for (const GridResult* result : results)
    if (const double ratio = time_of(*result, over) / time_of(*result, variant); !std::isnan(ratio))
      values.push_back(ratio);
  return values;
}

Ratios speedup(const ByPair& pairs, const Group& group, std::string_view over, std::string_view variant) {
  std::vector<Ratios> parts;
  for (const Pair& pair : group.pairs) parts.push_back(ratios_of(quotients(pairs.at(pair), over, variant)));
  return together(parts);
}

std::vector<std::string> baselines(const GridTable& table) {
  std::vector<std::string> names = {std::string(families::parm.name), std::string(families::ted.name),
                                    std::string(kParmChoice)};
  for (const GridResult& result : table.results)
    for (const GridRow& row : result.rows)
      if (row.peer() && std::ranges::find(names, row.variant) == names.end()) names.push_back(row.variant);
  return names;
}

Choosing choosing(const std::vector<const GridResult*>& results, std::string_view variant) {
  Choosing sum;
  for (const GridResult* result : results) {
    const GridRow* chosen = result->find(variant);
    if (!chosen) continue;
    const GridRow& best = fastest(*result);
    const double regret = chosen->ms / best.ms - 1;
    const bool is_best = regret <= 0, near = regret <= kNear, tied = chosen->low <= best.high;
    ++sum.layers;
    sum.best += is_best;
    sum.near += near;
    sum.tied += tied;
    sum.found += near || tied;
    sum.mean_regret += regret;
    if (sum.worst.empty() || regret > sum.worst_regret) {
      sum.worst_regret = regret;
      sum.worst = result->layer.id;
    }
  }
  if (sum.layers > 0) sum.mean_regret /= static_cast<double>(sum.layers);
  return sum;
}

// Each measurement once, that of auto under its name: lists that are alike have one time.
std::vector<const GridRow*> predicted_rows(const GridResult& result) {
  std::vector<const GridRow*> rows;
  const auto add = [&](const GridRow& row) {
    const auto same = [&](const GridRow* r) { return r->ms == row.ms && r->predicted_ms == row.predicted_ms; };
    if (row.ran() && !std::isnan(row.predicted_ms) && std::ranges::none_of(rows, same)) rows.push_back(&row);
  };
  if (const GridRow* chosen = result.find("auto")) add(*chosen);
  for (const GridRow& row : result.rows) add(row);
  return rows;
}

enum class Of { every_way, auto_only };
Errors errors(const std::vector<const GridResult*>& results, Of of) {
  std::vector<double> values;
  for (const GridResult* result : results)
    for (const GridRow* row : predicted_rows(*result))
      if (of == Of::every_way || row->variant == "auto") values.push_back(std::abs(row->predicted_ms / row->ms - 1));
  if (values.empty()) return {};
  return {static_cast<int64_t>(values.size()), median(values), percentile(values, 0.9)};
}

bool slower(const GridResult& result) {
  const GridRow *chosen = result.find("auto"), *parm = result.find(families::parm.name);
  return chosen && parm && chosen->low > parm->high;
}

}  // namespace

Ratios ratios_of(std::span<const double> values) {
  Ratios r{.count = static_cast<int64_t>(values.size())};
  if (values.empty()) return r;
  double logs = 0, sum = 0;
  r.least = r.most = values[0];
  for (double value : values) {
    logs += std::log(value);
    sum += value;
    r.least = std::min(r.least, value);
    r.most = std::max(r.most, value);
  }
  r.geometric = std::exp(logs / static_cast<double>(r.count));
  r.arithmetic = sum / static_cast<double>(r.count);
  return r;
}

Ratios together(std::span<const Ratios> parts) {
  std::vector<double> geometric, arithmetic;
  Ratios all;
  for (const Ratios& part : parts) {
    if (part.count == 0) continue;
    geometric.push_back(part.geometric);
    arithmetic.push_back(part.arithmetic);
    all.least = all.count == 0 ? part.least : std::min(all.least, part.least);
    all.most = all.count == 0 ? part.most : std::max(all.most, part.most);
    all.count += part.count;
  }
  all.geometric = ratios_of(geometric).geometric;
  all.arithmetic = ratios_of(arithmetic).arithmetic;
  return all;
}

double time_of(const GridResult& result, std::string_view variant) {
  if (variant == kParmChoice) {
    const auto fused = [&](const FamilySpec& family) { return time_of(result, fmt::format("{} fused", family.name)); };
    return std::fmin(fused(families::s1), fused(families::s2));
  }
  const GridRow* row = result.find(variant);
  return row ? row->ms : NAN;
}

const GridRow& fastest(const GridResult& result) {
  const GridRow* best = nullptr;
  for (const GridRow& row : result.rows)
    if (row.ran() && !row.peer() && (!best || row.ms < best->ms)) best = &row;
  expects(best != nullptr, "fastest: a layer that ran");
  return *best;
}

std::vector<int64_t> histogram(std::span<const double> values, double width) {
  std::vector<int64_t> bins;
  for (double value : values) {
    const size_t bin = static_cast<size_t>(value / width);
    if (bins.size() <= bin) bins.resize(bin + 1, 0);
    ++bins[bin];
  }
  return bins;
}

GridReport grid_report(const GridTable& table) {
  const ByPair pairs = by_pair(table);
  GridReport report{
      .header = table.header, .layers = static_cast<int64_t>(table.results.size()), .variants = variants_of(table)};
  const std::vector<Group> groups = groups_of(pairs);
  for (const Group& group : groups) report.groups.push_back(group.told);
  for (const std::string& over : baselines(table)) {
    Speedups all{.over = over, .by = {}};
    for (const Group& group : groups) {
      all.by.emplace_back();
      for (const std::string& variant : report.variants) all.by.back().push_back(speedup(pairs, group, over, variant));
    }
    report.speedups.push_back(std::move(all));
  }
  const auto has = [&](std::string_view variant) {
    return std::ranges::find(report.variants, variant) != report.variants.end();
  };
  for (const Group& group : groups) {
    const std::vector<const GridResult*> results = results_of(pairs, group);
    report.errors.push_back(errors(results, Of::every_way));
    report.auto_errors.push_back(errors(results, Of::auto_only));
    for (std::string_view chooser : {std::string_view("auto"), kPredicted})
      if (has(chooser)) report.choosing[std::string(chooser)].push_back(choosing(results, chooser));
  }
  for (const GridResult& result : table.results) {
    report.slower_than_parm += slower(result);
    if (const double ratio = time_of(result, families::parm.name) / time_of(result, "auto"); !std::isnan(ratio))
      report.auto_over_parm.push_back(ratio);
    for (const GridRow* row : predicted_rows(result))
      report.points.push_back({result.layer.id, row->variant, row->predicted_ms, row->ms});
  }
  std::ranges::sort(report.auto_over_parm);
  return report;
}

}  // namespace plait
