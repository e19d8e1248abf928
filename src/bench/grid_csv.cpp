// Grids as older versions wrote them: a title with the header's entries, the names of the columns, a line for each way.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/errors.h"
#include "bench/grid_table.h"

namespace plait {
namespace {

constexpr std::string_view kTitle = "# plait bench grid";
constexpr std::string_view kColumns[] = {
    "layer", "ranks",  "tp",      "esp",      "ep", "sequences", "positions", "width",        "hidden",  "experts",
    "top_k", "factor", "variant", "schedule", "ms", "low",       "high",      "predicted_ms", "differs", "note"};
constexpr size_t kNumColumns = std::size(kColumns);

using Cells = std::vector<std::string>;

// Reads one file; every refusal names the line.
class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : rest_(text), path_(path) {}

  GridTable table() {
    GridTable table;
    table.header = header();
    Cells columns;
    if (!next(columns) || !std::ranges::equal(columns, kColumns)) refuse("the names of the columns");
    for (Cells cells; next(cells);) {
      if (cells.size() != kNumColumns) refuse(fmt::format("{} columns", kNumColumns));
      if (!table.add(layer_of(cells), row_of(cells))) refuse("the lines of a layer together");
    }
    return table;
  }

 private:
  GridHeader header() {
    Cells cells;
    if (!next(cells) || cells[0] != kTitle) refuse(fmt::format("\"{}, links=...\"", kTitle));
    std::map<std::string, std::string> found;
    for (size_t i = 1; i < cells.size(); ++i) {
      const size_t equals = cells[i].find('=');
      if (equals == std::string::npos) refuse("entries name=value");
      found[cells[i].substr(0, equals)] = cells[i].substr(equals + 1);
    }
    for (const char* name : {"links", "ranks", "node", "threads", "rounds", "grid", "machine", "peer"})
      if (!found.contains(name)) refuse(fmt::format("the entry {}", name));
    const int node = integer<int>(found["node"]);
    return {.links = found["links"],
            .ranks = integer<int>(found["ranks"]),
            .lanes = node > 0 ? std::optional(NodeLanes{node}) : std::nullopt,
            .threads = integer<int64_t>(found["threads"]),
            .rounds = integer<int64_t>(found["rounds"]),
            .grid = found["grid"],
            .machine = found["machine"],
            .peer = found["peer"]};
  }

  GridLayer layer_of(const Cells& c) const {
    return {.id = c[0],
            .ranks = integer<int>(c[1]),
            .tp = integer<int>(c[2]),
            .esp = integer<int>(c[3]),
            .ep = integer<int>(c[4]),
            .sequences = integer<int64_t>(c[5]),
            .positions = integer<int64_t>(c[6]),
            .width = integer<int64_t>(c[7]),
            .hidden = integer<int64_t>(c[8]),
            .experts = integer<int64_t>(c[9]),
            .top_k = integer<int64_t>(c[10]),
            .factor = real(c[11])};
  }

  GridRow row_of(const Cells& c) const {
    return {.variant = c[12],
            .schedule = c[13],
            .ms = real(c[14]),
            .low = real(c[15]),
            .high = real(c[16]),
            .predicted_ms = real(c[17]),
            .differs = real(c[18]),
            .note = c[19]};
  }

  // The cells of the next line; false at the end. A line without its newline was not written whole.
  bool next(Cells& cells) {
    cells.clear();
    if (rest_.empty()) return false;
    ++line_;
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("a whole line");
    split(rest_.substr(0, end), cells);
    rest_.remove_prefix(end + 1);
    return true;
  }

  static void split(std::string_view text, Cells& cells) {
    cells.emplace_back();
    bool inside = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"' && inside && i + 1 < text.size() && text[i + 1] == '"') {
        cells.back() += text[++i];
      } else if (text[i] == '"') {
        inside = !inside;
      } else if (text[i] == ',' && !inside) {
        cells.emplace_back();
      } else {
        cells.back() += text[i];
      }
    }
  }

  template <class T>
  T integer(const std::string& cell) const {
    T value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) refuse(fmt::format("an integer, not \"{}\"", cell));
    return value;
  }

  double real(const std::string& cell) const {
    if (cell.empty()) return NAN;
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) refuse(fmt::format("a number, not \"{}\"", cell));
    return value;
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    input_error("{}:{}: expected {}: it is not a file of plait bench grid; name another, or remove it", path_, line_,
                expected);
  }

  std::string_view rest_;
  const std::string& path_;
  int line_ = 0;
};

}  // namespace

GridTable parse_grid_csv(std::string_view text, const std::string& path) { return Reader(text, path).table(); }

}  // namespace plait
