// What `plait bench grid` has measured, as a file that grows by whole layers. Each line is a JSON object: the first
// says what was run, then there is one for each way in which a layer ran.
#pragma once
#include <cmath>
#include <optional>
#include <string_view>

#include "bench/grid.h"
#include "schedule/lanes.h"

namespace plait {

// What all rows of a file have in common; a run goes on only where it finds its own.
struct GridHeader {
  std::string links;  // as the user calls them, "200mbit"
  int ranks = 1;
  std::optional<NodeLanes> lanes = {};  // of messages; in the file "node", 0 without them
  int64_t threads = 1, rounds = 1;
  std::string grid, machine;  // fingerprints: of the layers and what is the same in all of them; of the machine file
  std::string peer;           // the program beside ours
  bool operator==(const GridHeader&) const = default;
};

inline constexpr std::string_view kPeer = "another program";

// One way to run a layer.
struct GridRow {
  std::string variant;                     // "ted", "s1 fused", "auto", "auto 2", "deepspeed"
  std::string schedule;                    // what that is, "s1 fused, chunks 2/4, lanes"
  double ms = NAN, low = NAN, high = NAN;  // of a step: median of the rounds, their quartiles; NaN: it cannot run
  double predicted_ms = NAN;               // NaN: without a machine file
  double differs = NAN;                    // from the first variant, as a share of the norm; NaN: not to be compared
  std::string note;                        // why it cannot run or cannot be compared
  bool peer() const { return schedule == kPeer; }  // another program ran it
  bool ran() const { return !std::isnan(ms); }
  bool operator==(const GridRow&) const = default;
};

struct GridResult {
  GridLayer layer;
  std::vector<GridRow> rows;
  const GridRow* find(std::string_view variant) const;  // null where it did not run
};

struct GridTable {
  GridHeader header;
  std::vector<GridResult> results;
  bool has(const std::string& id) const;
  // Of the layer that came last or of a new one; false where the layer is an older one.
  bool add(const GridLayer& layer, GridRow row);
};

std::string grid_lines(const GridTable& table);

// Both throw InputError with the line of `path` that is no such file. The first reads the second's files too: as older
// versions wrote them.
GridTable parse_grid(std::string_view text, const std::string& path);
GridTable parse_grid_csv(std::string_view text, const std::string& path);

// InputError, naming the first entry that differs, unless a run with `now` may go on in the file `path`.
void expect_same_grid(const GridHeader& file, const GridHeader& now, const std::string& path);

}  // namespace plait
