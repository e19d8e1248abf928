// The report of a grid as a page by itself: tables, a histogram and a scatter plot, drawn here as SVG without a script.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/markup.h"
#include "base/units.h"
#include "bench/grid_report.h"
#include "draw/assets.h"

namespace plait {
namespace {

std::string in_ms(double value) { return std::isnan(value) ? "" : fmt::format("{:.1f}", value); }

// A row of cells; cells that begin with '<' are written as they are.
std::string row(const std::vector<std::string>& cells, std::string_view tag = "td", std::string_view kind = "") {
  std::string out = kind.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", kind);
  for (const std::string& cell : cells)
    out += cell.starts_with('<') ? cell : fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return out + "</tr>\n";
}

std::string cell(std::string_view kind, std::string_view text) {
  return fmt::format("<td class=\"{}\">{}</td>", kind, escaped(text));
}

std::string_view kind_of(const GridGroup& group) { return group.of == GridGroup::Of::several ? "sum" : ""; }

std::string speedup_table(const GridReport& report, const Speedups& speedups) {
  std::vector<std::string> header = {"over " + speedups.over, "layers"};
  header.insert(header.end(), report.variants.begin(), report.variants.end());
  std::string out = fmt::format("<h2>Times faster than {}</h2><div class=\"wide\"><table>\n", escaped(speedups.over)) +
                    row(header, "th");
  for (size_t g = 0; g < report.groups.size(); ++g) {
    int64_t most = 0;
    for (const Ratios& r : speedups.by[g]) most = std::max(most, r.count);
    double best = 0;  // of those that ran in all of these layers
    for (const Ratios& r : speedups.by[g])
      if (r.count == most && most > 0) best = std::max(best, r.geometric);
    if (most == 0) continue;
    std::vector<std::string> cells = {report.groups[g].name, std::to_string(most)};
    for (const Ratios& r : speedups.by[g]) {
      const std::string text = times(r.geometric);
      cells.push_back(r.count == most && r.geometric == best ? cell("best", text)
                      : r.geometric < 0.995                  ? cell("bad", text)
                                                             : text);
    }
    out += row(cells, "td", kind_of(report.groups[g]));
  }
  return out + "</table></div>\n";
}

bool any(const Speedups& speedups) {
  return std::ranges::any_of(speedups.by.back(), [](const Ratios& r) { return r.count > 0; });
}

std::string auto_table(const GridReport& report, size_t chosen) {
  std::string out =
      "<h2>Auto over the others</h2><div class=\"wide\"><table>\n" +
      row({"over", "<th class=\"left\">layers</th>", "count", "geometric mean", "arithmetic", "least", "most"}, "th");
  for (const Speedups& speedups : report.speedups)
    for (size_t g = 0; g < report.groups.size(); ++g)
      if (const Ratios& r = speedups.by[g][chosen]; r.count > 0 && report.groups[g].of == GridGroup::Of::several)
        out += row({speedups.over, cell("left", report.groups[g].name), std::to_string(r.count), times(r.geometric),
                    times(r.arithmetic), times(r.least), times(r.most)},
                   "td", kind_of(report.groups[g]));
  return out + "</table></div>\n";
}

std::string choosing_table(const GridReport& report, const std::string& chooser) {
  std::string out =
      (chooser == kPredicted ? "<h2>And the prediction, without trials?</h2>" : "<h2>Did auto find the best?</h2>") +
      std::string(
          "<p class=\"soft\">Among all ways that were measured. Regret: time of what was taken / time of the fastest "
          "- 1. Within the spread: the quartiles of the two overlap.</p><div class=\"wide\"><table>\n") +
      row({"", "layers", "the fastest", "within 3%", "within the spread", "one of these", "mean regret", "worst",
           "of layer"},
          "th");
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const Choosing& c = report.choosing.at(chooser)[g];
    if (c.layers == 0) continue;
    const auto share = [&](int64_t n) { return percent(static_cast<double>(n) / static_cast<double>(c.layers)); };
    out += row({report.groups[g].name, std::to_string(c.layers), share(c.best), share(c.near), share(c.tied),
                share(c.found), percent(c.mean_regret), percent(c.worst_regret), c.worst},
               "td", kind_of(report.groups[g]));
  }
  return out + "</table></div>\n";
}

std::string error_table(const GridReport& report) {
  std::string out =
      "<h2>How far predictions lie from measurements</h2><div class=\"wide\"><table>\n" +
      row({"|predicted / measured - 1|", "ways", "median", "90% below", "auto's", "median", "90% below"}, "th");
  for (size_t g = 0; g < report.groups.size(); ++g) {
    const Errors &all = report.errors[g], &chosen = report.auto_errors[g];
    if (all.count > 0)
      out += row({report.groups[g].name, std::to_string(all.count), percent(all.median), percent(all.ninth),
                  std::to_string(chosen.count), percent(chosen.median), percent(chosen.ninth)},
                 "td", kind_of(report.groups[g]));
  }
  return out + "</table></div>\n";
}

constexpr double kWidth = 560, kHeight = 360, kLeft = 46, kFoot = 40, kTop = 12, kRight = 10;

std::string open_svg(std::string_view what) {
  return fmt::format("<svg id=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\">\n", what, kWidth,
                     kHeight, kWidth, kHeight);
}

std::string words(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string rule(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line)\"/>\n", x1, y1,
                     x2, y2);
}

// How often auto is how many times faster than parm.
std::string histogram_svg(const GridReport& report) {
  const std::vector<double>& ratios = report.auto_over_parm;
  constexpr int kMostBins = 24;
  double width = 0.25;
  while (ratios.back() / width >= kMostBins) width *= 2;
  const std::vector<int64_t> bins = histogram(ratios, width);
  const double most = static_cast<double>(*std::ranges::max_element(bins));
  const double across = (kWidth - kLeft - kRight) / static_cast<double>(bins.size()), tall = kHeight - kTop - kFoot;
  std::string out = open_svg("histogram");
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(most) / 5);
  for (int64_t n = 0; static_cast<double>(n) <= most; n += step) {
    const double y = kTop + tall * (1 - static_cast<double>(n) / most);
    out += rule(kLeft, y, kWidth - kRight, y) + words(kLeft - 7, y + 4, "end", std::to_string(n));
  }
  for (size_t i = 0; i < bins.size(); ++i) {
    const double x = kLeft + across * static_cast<double>(i), low = width * static_cast<double>(i);
    const double h = tall * static_cast<double>(bins[i]) / most;
    if (bins[i] > 0)
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var({})\"><title>{} layers, "
          "{:.2f}x "
          "to {:.2f}x</title></rect>\n",
          x + 1, kTop + tall - h, across - 2, h, low < 1 ? "--bad" : "--blue", bins[i], low, low + width);
    if (bins.size() <= 12 || i % 2 == 0) out += words(x, kHeight - kFoot + 16, "middle", fmt::format("{:g}", low));
  }
  return out +
         words(kLeft + across * static_cast<double>(bins.size()) / 2, kHeight - 6, "middle",
               "times faster than parm; layers") +
         "</svg>\n";
}

// Both axes in logarithms; the band is 20% about equality.
std::string scatter_svg(const GridReport& report) {
  double least = INFINITY, most = 0;
  for (const GridPoint& p : report.points) {
    least = std::min({least, p.predicted_ms, p.ms});
    most = std::max({most, p.predicted_ms, p.ms});
  }
  const double from = std::log(least / 1.15), to = std::log(most * 1.15), side = kHeight - kTop - kFoot;
  const auto x = [&](double v) { return kLeft + (std::log(v) - from) / (to - from) * side; };
  const auto y = [&](double v) { return kTop + side - (std::log(v) - from) / (to - from) * side; };
  std::string out = open_svg("scatter");
  for (double ten = 0.001; ten < most * 2; ten *= 10)
    for (double k : {1.0, 2.0, 5.0})
      if (const double v = k * ten; v > std::exp(from) && v < std::exp(to))
        out += rule(x(v), kTop, x(v), kTop + side) + rule(kLeft, y(v), kLeft + side, y(v)) +
               words(x(v), kTop + side + 16, "middle", fmt::format("{:g}", v)) +
               words(kLeft - 7, y(v) + 4, "end", fmt::format("{:g}", v));
  const double a = std::exp(from) * 1.25, b = std::exp(to) / 1.25;
  out += fmt::format(
      "<polygon points=\"{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\" fill=\"var(--soft)\" "
      "opacity=\".14\"/>\n",
      x(a), y(a * 0.8), x(b), y(b * 0.8), x(b), y(b * 1.2), x(a), y(a * 1.2));
  for (const std::string_view turn : {"others", "auto"})
    for (const GridPoint& p : report.points)
      if ((p.variant == "auto") == (turn == "auto"))
        out += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"var({})\" opacity=\".75\"><title>{} {}: predicted "
            "{:.2f} "
            "ms, measured {:.2f} ms</title></circle>\n",
            x(p.ms), y(p.predicted_ms), turn == "auto" ? "--warm" : "--blue", p.layer, escaped(p.variant),
            p.predicted_ms, p.ms);
  return out + words(kLeft + side / 2, kHeight - 6, "middle", "measured ms") +
         words(kLeft + 8, kTop + 14, "start", "predicted ms; auto in orange; the band is 20%") + "</svg>\n";
}

std::string layer_table(const GridReport& report, const GridTable& table) {
  std::vector<std::string> header = {"layer", "<th class=\"left\">shape of a data rank</th>"};
  header.insert(header.end(), report.variants.begin(), report.variants.end());
  header.insert(header.end(),
                {"<th class=\"left\">fastest</th>", "<th class=\"left\">auto took</th>", "auto told", "regret"});
  std::string out =
      "<details open><summary>All layers, ms a step</summary><div class=\"wide\"><table>\n" + row(header, "th");
  for (const GridResult& result : table.results) {
    const GridRow& best = fastest(result);
    std::vector<std::string> cells = {result.layer.id, cell("left", result.layer.title())};
    for (const std::string& variant : report.variants) {
      const double ms = time_of(result, variant);
      cells.push_back(ms <= best.ms ? cell("best", in_ms(ms)) : in_ms(ms));
    }
    const GridRow* chosen = result.find("auto");
    cells.push_back(cell("left", best.schedule));
    cells.push_back(cell("left", chosen ? chosen->schedule : ""));
    cells.push_back(chosen ? in_ms(chosen->predicted_ms) : "");
    cells.push_back(chosen ? percent(chosen->ms / best.ms - 1) : "");
    out += row(cells);
  }
  return out + "</table></div></details>\n";
}

std::string card(std::string_view figure, std::string_view meaning) {
  return fmt::format("<div class=\"card\"><b>{}</b>{}</div>\n", escaped(figure), escaped(meaning));
}

std::string cards(const GridReport& report, size_t chosen) {
  std::string out = "<div class=\"cards\">\n";
  for (const Speedups& speedups : report.speedups)
    if (const Ratios& all = speedups.by.back()[chosen]; all.count > 0)
      out += card(times(all.geometric), fmt::format("auto over {}, up to {}", speedups.over, times(all.most)));
  const Choosing& c = report.choosing.at("auto").back();
  out +=
      card(percent(static_cast<double>(c.found) / static_cast<double>(c.layers)), "of the layers: auto found the best");
  if (const Errors& e = report.errors.back(); e.count > 0)
    out += card(percent(e.median), fmt::format("median error of predictions, 90% below {}", percent(e.ninth)));
  return out + "</div>\n";
}

}  // namespace

std::string grid_html(const GridReport& report, const GridTable& table) {
  std::string out = fmt::format("<h1>A grid of MoE layers</h1><p class=\"soft\">{} layers, {}</p>\n", report.layers,
                                escaped(grid_title(report.header)));
  if (report.layers == 0) return filled("grid.html", {{"body", out}});
  const size_t chosen = static_cast<size_t>(std::ranges::find(report.variants, "auto") - report.variants.begin());
  if (report.chooses()) out += cards(report, chosen);
  out += "<div class=\"plots\">\n";
  if (!report.auto_over_parm.empty()) out += "<div><h2>Auto over parm</h2>" + histogram_svg(report) + "</div>\n";
  if (!report.points.empty()) out += "<div><h2>Predicted and measured</h2>" + scatter_svg(report) + "</div>\n";
  out += "</div>\n";
  if (report.chooses()) out += auto_table(report, chosen);
  for (const auto& [chooser, by_group] : report.choosing) out += choosing_table(report, chooser);
  if (!report.points.empty()) out += error_table(report);
  for (const Speedups& speedups : report.speedups)
    if (any(speedups)) out += speedup_table(report, speedups);
  out += "<p class=\"soft\">Geometric means. Several pairs (tp, esp) together: each as much as any other.</p>\n";
  return filled("grid.html", {{"body", out + layer_table(report, table)}});
}

}  // namespace plait
