#include "bench/grid_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "base/json.h"

namespace plait {
namespace {

constexpr std::string_view kTitle = "plait bench grid";

JsonLine line_of(const GridHeader& h) {
  return JsonLine()
      .add("title", kTitle)
      .add("links", h.links)
      .add("ranks", h.ranks)
      .add("node", h.lanes ? h.lanes->ranks_per_node : 0)
      .add("threads", h.threads)
      .add("rounds", h.rounds)
      .add("grid", h.grid)
      .add("machine", h.machine)
      .add("peer", h.peer);
}

std::optional<NodeLanes> lanes_of(int64_t node) {
  return node > 0 ? std::optional(NodeLanes{static_cast<int>(node)}) : std::nullopt;
}

GridHeader header_of(const JsonObject& line) {
  return {.links = line.text("links"),
          .ranks = static_cast<int>(line.integer("ranks")),
          .lanes = lanes_of(line.integer("node")),
          .threads = line.integer("threads"),
          .rounds = line.integer("rounds"),
          .grid = line.text("grid"),
          .machine = line.text("machine"),
          .peer = line.text("peer")};
}

JsonLine line_of(const GridLayer& l, const GridRow& r) {
  return JsonLine()
      .add("layer", l.id)
      .add("ranks", l.ranks)
      .add("tp", l.tp)
      .add("esp", l.esp)
      .add("ep", l.ep)
      .add("sequences", l.sequences)
      .add("positions", l.positions)
      .add("width", l.width)
      .add("hidden", l.hidden)
      .add("experts", l.experts)
      .add("top_k", l.top_k)
      .add("factor", l.factor)
      .add("variant", r.variant)
      .add("schedule", r.schedule)
      .add("ms", r.ms)
      .add("low", r.low)
      .add("high", r.high)
      .add("predicted_ms", r.predicted_ms)
      .add("differs", r.differs)
      .add("note", r.note);
}

GridLayer layer_of(const JsonObject& line) {
  return {.id = line.text("layer"),
          .ranks = static_cast<int>(line.integer("ranks")),
          .tp = static_cast<int>(line.integer("tp")),
          .esp = static_cast<int>(line.integer("esp")),
          .ep = static_cast<int>(line.integer("ep")),
          .sequences = line.integer("sequences"),
          .positions = line.integer("positions"),
          .width = line.integer("width"),
          .hidden = line.integer("hidden"),
          .experts = line.integer("experts"),
          .top_k = line.integer("top_k"),
          .factor = line.number("factor")};
}

GridRow row_of(const JsonObject& line) {
  return {.variant = line.text("variant"),
          .schedule = line.text("schedule"),
          .ms = line.number("ms"),
          .low = line.number("low"),
          .high = line.number("high"),
          .predicted_ms = line.number("predicted_ms"),
          .differs = line.number("differs"),
          .note = line.text("note")};
}

// The header's entries as text, by name.
std::vector<std::pair<std::string, std::string>> entries(const GridHeader& h) {
  return {{"links", h.links},
          {"ranks", fmt::format("{}", h.ranks)},
          {"node", fmt::format("{}", h.lanes ? h.lanes->ranks_per_node : 0)},
          {"threads", fmt::format("{}", h.threads)},
          {"rounds", fmt::format("{}", h.rounds)},
          {"grid", h.grid},
          {"machine", h.machine},
          {"peer", h.peer}};
}

GridTable parse_lines(std::string_view text, const std::string& path) try {
  GridTable table;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::string where = fmt::format("{}:{}", path, number);
    const JsonObject line = JsonObject::parse(text.substr(0, end + 1), where);
    text.remove_prefix(end + 1);
    if (number == 1)
      table.header = header_of(line);
    else if (!table.add(layer_of(line), row_of(line)))
      input_error("{}: expected the lines of layer {} together", where, line.text("layer"));
  }
  return table;
} catch (const InputError& error) {
  input_error("{}: it is not a file of plait bench grid; name another, or remove it", error.what());
}

}  // namespace

const GridRow* GridResult::find(std::string_view variant) const {
  for (const GridRow& row : rows)
    if (row.variant == variant && row.ran()) return &row;
  return nullptr;
}

bool GridTable::has(const std::string& id) const {
  return std::ranges::any_of(results, [&](const GridResult& r) { return r.layer.id == id; });
}

bool GridTable::add(const GridLayer& layer, GridRow row) {
  if (results.empty() || results.back().layer != layer) {
    if (has(layer.id)) return false;
    results.push_back({layer, {}});
  }
  results.back().rows.push_back(std::move(row));
  return true;
}

std::string grid_lines(const GridTable& table) {
  std::string out = line_of(table.header).str() + '\n';
  for (const GridResult& result : table.results)
    for (const GridRow& row : result.rows) out += line_of(result.layer, row).str() + '\n';
  return out;
}

GridTable parse_grid(std::string_view text, const std::string& path) {
  return text.starts_with('{') ? parse_lines(text, path) : parse_grid_csv(text, path);
}

void expect_same_grid(const GridHeader& file, const GridHeader& now, const std::string& path) {
  const auto theirs = entries(file), ours = entries(now);
  for (size_t i = 0; i < ours.size(); ++i)
    if (theirs[i] != ours[i])
      input_error("{} holds another run: its {} is \"{}\", now it is \"{}\"; name another file to begin anew", path,
                  ours[i].first, theirs[i].second, ours[i].second);
}

}  // namespace plait
