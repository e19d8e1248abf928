// The figures of a grid as tables for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "base/units.h"
#include "bench/grid_report.h"

namespace plait {
namespace {

std::string speedup_table(const GridReport& report, const Speedups& speedups) {
  std::vector<std::string> header = {"over " + speedups.over};
  for (const std::string& variant : report.variants) header.push_back(variant);
  Table table(header);
  for (size_t g = 0; g < report.groups.size(); ++g) {
    std::vector<std::string> row = {report.groups[g].name};
    for (const Ratios& ratios : speedups.by[g]) row.push_back(times(ratios.geometric));
    table.row(row);
  }
  return table.str();
}

bool any(const Speedups& speedups) {
  return std::ranges::any_of(speedups.by.back(), [](const Ratios& r) { return r.count > 0; });
}

// Auto over each of the others: both means and the extremes.
std::string auto_table(const GridReport& report) {
  const size_t chosen = static_cast<size_t>(std::ranges::find(report.variants, "auto") - report.variants.begin());
  Table table({"auto over", "", "layers", "geometric", "arithmetic", "least", "most"});
  for (const Speedups& speedups : report.speedups)
    for (size_t g = 0; g < report.groups.size(); ++g) {
      const Ratios& r = speedups.by[g][chosen];
      if (r.count > 0 && report.groups[g].of == GridGroup::Of::several)
        table.row({speedups.over, report.groups[g].name, std::to_string(r.count), times(r.geometric),
                   times(r.arithmetic), times(r.least), times(r.most)});
    }
  return table.str();
}

std::string choosing_table(const GridReport& report, const std::string& chooser) {
  Table table({chooser, "layers", "the fastest", "within 3%", "within spread", "one of these", "mean regret", "worst",
               "of layer"});
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const Choosing& c = report.choosing.at(chooser)[g];
    if (c.layers == 0) continue;
    const double all = static_cast<double>(c.layers);
    table.row({report.groups[g].name, std::to_string(c.layers), percent(static_cast<double>(c.best) / all),
               percent(static_cast<double>(c.near) / all), percent(static_cast<double>(c.tied) / all),
               percent(static_cast<double>(c.found) / all), percent(c.mean_regret), percent(c.worst_regret), c.worst});
  }
  return table.str();
}

std::string error_table(const GridReport& report) {
  Table table({"predicted/measured - 1", "ways", "median", "90% below", "of auto", "median", "90% below"});
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const Errors &all = report.errors[g], &chosen = report.auto_errors[g];
    if (all.count > 0)
      table.row({report.groups[g].name, std::to_string(all.count), percent(all.median), percent(all.ninth),
                 std::to_string(chosen.count), percent(chosen.median), percent(chosen.ninth)});
  }
  return table.str();
}

}  // namespace

std::string grid_title(const GridHeader& h) {
  return fmt::format("{} ranks with {} thread{} each{}, links {}, {} rounds", h.ranks, h.threads,
                     h.threads == 1 ? "" : "s", h.lanes ? fmt::format(", {} a node", h.lanes->ranks_per_node) : "",
                     h.links, h.rounds);
}

std::string grid_text(const GridReport& report) {
  std::string out = fmt::format("{} layers, {}\n\n", report.layers, grid_title(report.header));
  for (const Speedups& speedups : report.speedups)
    if (any(speedups)) out += speedup_table(report, speedups) + '\n';
  out += "times faster, geometric mean; several pairs (tp, esp) together: each pair as much as any other\n";
  if (report.chooses()) {
    out += '\n' + auto_table(report);
    out += fmt::format("slower than parm by more than the spread: {} layers\n\n", report.slower_than_parm);
    for (const auto& [chooser, by_group] : report.choosing) out += choosing_table(report, chooser) + '\n';
    out +=
        "regret: time of what was taken / time of the fastest way that was measured - 1; predicted: what auto takes "
        "that tries nothing\n";
  }
  if (!report.points.empty()) out += '\n' + error_table(report);
  return out;
}

}  // namespace plait
