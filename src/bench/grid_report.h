// What a table of the grid says: who is how much faster than whom, whether the choice found the best, and how far
// predictions lie from measurements. Pure functions of the table.
#pragma once
#include <map>
#include <span>

#include "bench/grid_table.h"

namespace plait {

// Of several quotients; NaN where there are none.
struct Ratios {
  int64_t count = 0;
  double geometric = NAN, arithmetic = NAN, least = NAN, most = NAN;
};
Ratios ratios_of(std::span<const double> values);
// Of all of them together, each of `parts` with the same weight, whatever it counts; those without any left out.
Ratios together(std::span<const Ratios> parts);

// Whether a chooser took the fastest of all ways that were measured.
struct Choosing {
  int64_t layers = 0;
  int64_t best = 0, near = 0, tied = 0;      // the fastest; within 3% of it; quartiles that overlap with its
  int64_t found = 0;                         // one of these
  double mean_regret = 0, worst_regret = 0;  // time / time of the fastest - 1
  std::string worst;                         // the layer
};

// |predicted / measured - 1|
struct Errors {
  int64_t count = 0;
  double median = NAN, ninth = NAN;  // 50 and 90 of 100 lie below
};

struct GridPoint {
  std::string layer, variant;
  double predicted_ms = 0, ms = 0;
};

// How many times faster than `over` each variant is.
struct Speedups {
  std::string over;
  std::vector<std::vector<Ratios>> by;  // group, variant
};

// Layers that are told together: "tp 1, esp 2", .., "tp or esp 1", "tp and esp 2 or more", "all".
struct GridGroup {
  std::string name;
  enum class Of { one_pair, several } of = Of::one_pair;
};

struct GridReport {
  GridHeader header;
  int64_t layers = 0;
  std::vector<GridGroup> groups;
  std::vector<std::string> variants;                      // without those that `auto` did not take
  std::vector<Speedups> speedups;                         // over parm, ted, Parm's own choice and every other program
  std::map<std::string, std::vector<Choosing>> choosing;  // of "auto" and kPredicted, where they are there; by group
  std::vector<Errors> errors, auto_errors;                // by group: of every way; of the one that auto took
  std::vector<GridPoint> points;                          // all that have a prediction
  std::vector<double> auto_over_parm;                     // sorted
  int64_t slower_than_parm = 0;                           // by more than the quartiles
  bool chooses() const { return choosing.contains("auto"); }
};

inline constexpr std::string_view kPredicted = "predicted";       // what auto takes that tries nothing
inline constexpr std::string_view kParmChoice = "Parm's choice";  // the faster of s1 and s2, fused

GridReport grid_report(const GridTable& table);

// Milliseconds of a variant, or of kParmChoice; NaN where it did not run.
double time_of(const GridResult& result, std::string_view variant);

// The fastest of our own ways; REQUIRES one.
const GridRow& fastest(const GridResult& result);

// How many values lie in [i * width, (i + 1) * width), as long as any lies above.
std::vector<int64_t> histogram(std::span<const double> values, double width);

std::string grid_title(const GridHeader& header);                         // "4 ranks with 1 thread each, .."
std::string grid_text(const GridReport& report);                          // for a terminal
std::string grid_html(const GridReport& report, const GridTable& table);  // a page by itself

}  // namespace plait
