#include "machine/machine_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/errors.h"
#include "base/json.h"
#include "base/text.h"

namespace plait {
namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                       Collective::all_to_all};

constexpr std::string_view kHead = R"(# A machine as a plan sees it. Seconds, bytes, and operations per second.
# A message of which a rank sends b bytes takes alpha + beta * b seconds; r2 says how well that fits (1 at best).
# Where points = [[bytes, seconds], ..] are given, by size, the time lies on the lines between them instead.
# [compute]  flops: of matrix products, of one rank while all compute; memory_bytes: read or written per second;
#            start: seconds from one op to the next;
#            crowding: seconds that a message on a lane takes longer for each second that its rank computes meanwhile;
#            products: [rows, columns, inner, flops] of single ones.
# [[level]]  from the inside out: blocks of so many consecutive ranks, and messages within a block; meet: seconds from
#            the end of a message among the steps of a list until its ranks go on (on a lane others travel meanwhile);
#            hand_over: seconds that this takes longer on a lane.
# [[group]]  messages of groups of one shape, all at once: digits = [[size, stride], ..], fastest first.
# [[pair]]   two messages at once: their time together / the sum of their times alone.
)";

// ---- writing ----
std::string written(const Digits& digits) {
  std::vector<std::string> each;
  for (const Digit& d : digits) each.push_back(fmt::format("[{}, {}]", d.size, d.stride));
  return fmt::format("[{}]", join(each, ", "));
}

std::string written(const std::vector<MessagePoint>& points) {
  std::vector<std::string> each;
  for (const MessagePoint& p : points) each.push_back(fmt::format("[{}, {}]", p.bytes, p.seconds));
  return each.empty() ? "" : fmt::format(", points = [{}]", join(each, ", "));
}

std::string written(const MessageCosts& costs) {
  std::string text;
  for (Collective c : kCollectives)
    if (const MessageCost& m = costs[static_cast<size_t>(c)]; m.known())
      text +=
          fmt::format("{} = {{alpha = {}, beta = {}, r2 = {}{}}}\n", name(c), m.alpha, m.beta, m.r2, written(m.points));
  return text;
}

std::string written(const std::vector<ProductPoint>& products) {
  std::string text = "products = [\n";
  for (const ProductPoint& p : products)
    text += fmt::format("  [{}, {}, {}, {}],\n", p.rows, p.columns, p.inner, p.flops);
  return text + "]\n";
}

// ---- reading ----
// A table of the file whose keys are taken one by one; those that nobody asked for are refused by `end`.
class Fields {
 public:
  Fields(const toml::table& table, std::string file, std::string title)
      : table_(table), file_(std::move(file)), title_(std::move(title)) {}

  const toml::node* find(const std::string& key) {
    known_.push_back(key);
    return table_.get(key);
  }

  double number(const std::string& key, double least) { return number(key, need(key), least); }
  double number(const std::string& key, double least, double otherwise) {
    const toml::node* node = find(key);
    return node ? number(key, *node, least) : otherwise;
  }

  int count(const std::string& key, int otherwise) {
    const toml::node* node = find(key);
    return node ? integer(key, *node) : otherwise;
  }

  std::string word(const std::string& key) {
    const toml::node& node = need(key);
    if (!node.is_string()) refuse(node, key, "a word in quotes");
    return node.as_string()->get();
  }

  // The tables of `[[key]]`.
  std::vector<Fields> tables(const std::string& key) {
    std::vector<Fields> all;
    const toml::node* node = find(key);
    if (!node) return all;
    if (!node->is_array_of_tables()) refuse(*node, key, fmt::format("tables, each under [[{}]]", key));
    for (const toml::node& each : *node->as_array()) all.emplace_back(*each.as_table(), file_, "[[" + key + "]]");
    return all;
  }

  Fields table(const std::string& key, const std::string& title) {
    const toml::node& node = need(key);
    if (!node.is_table()) refuse(node, key, "a table");
    return {*node.as_table(), file_, title};
  }

  // Rows of so many numbers.
  std::vector<std::vector<double>> rows(const std::string& key, size_t width) {
    const toml::node& node = need(key);
    const std::string expected = fmt::format("a list of [{}]", key == "points" ? "bytes, seconds"
                                                               : width == 2    ? "size, stride"
                                                                               : "rows, columns, inner, flops");
    std::vector<std::vector<double>> all;
    if (!node.is_array()) refuse(node, key, expected);
    for (const toml::node& row : *node.as_array()) {
      if (!row.is_array() || row.as_array()->size() != width) refuse(row, key, expected);
      std::vector<double>& to = all.emplace_back();
      for (const toml::node& each : *row.as_array()) to.push_back(number(key, each, key == "points" ? 0 : 1));
    }
    return all;
  }

  void end() const {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known_, key.str()) != known_.end()) continue;
      const std::string near = nearest(key.str(), known_);
      input_error("{}: unknown key {} in {}; {}", at(node), key.str(), title_,
                  near.empty() ? "known are " + join(known_, ", ") : "the nearest known key is " + near);
    }
  }

  [[noreturn]] void refuse(const toml::node& node, const std::string& key, const std::string& expected) const {
    input_error("{}: {} in {}, expected {}", at(node), key, title_, expected);
  }
  const toml::node& need(const std::string& key) {
    const toml::node* node = find(key);
    if (!node) input_error("{}: {} lacks {}", at(table_), title_, key);
    return *node;
  }

 private:
  std::string at(const toml::node& node) const { return fmt::format("{}:{}", file_, node.source().begin.line); }

  double number(const std::string& key, const toml::node& node, double least) const {
    const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < least)
      refuse(node, key, fmt::format("a number of at least {}", least));
    return *value;
  }

  int integer(const std::string& key, const toml::node& node) const {
    const std::optional<int64_t> value = node.is_integer() ? node.value<int64_t>() : std::nullopt;
    if (!value || *value < 1 || *value > int64_t{1} << 30) refuse(node, key, "an integer of 1 to 1073741824");
    return static_cast<int>(*value);
  }

  const toml::table& table_;
  std::string file_, title_;
  std::vector<std::string> known_;
};

std::vector<MessagePoint> message_points(Fields& fields) {
  std::vector<MessagePoint> points;
  for (const std::vector<double>& row : fields.rows("points", 2)) {
    if (row[1] <= 0 || (!points.empty() && row[0] <= points.back().bytes))
      fields.refuse(fields.need("points"), "points", "[bytes, seconds] of growing bytes, seconds above 0");
    points.push_back({row[0], row[1]});
  }
  if (points.size() < 2) fields.refuse(fields.need("points"), "points", "at least two");
  return points;
}

MessageCosts message_costs(Fields& fields) {
  MessageCosts costs;
  for (Collective c : kCollectives) {
    const std::string key(name(c));
    if (!fields.find(key)) continue;
    Fields m = fields.table(key, key);
    costs[static_cast<size_t>(c)] = {
        .alpha = m.number("alpha", 0), .beta = m.number("beta", 0), .r2 = m.number("r2", -1e9, 1)};
    if (m.find("points")) costs[static_cast<size_t>(c)].points = message_points(m);
    m.end();
  }
  return costs;
}

Digits digits(Fields& fields, const std::string& key) {
  Digits all;
  for (const std::vector<double>& row : fields.rows(key, 2))
    all.push_back({static_cast<int>(row[0]), static_cast<int>(row[1])});
  return all;
}

Collective collective_of(Fields& fields, const std::string& key) {
  const std::string word = fields.word(key);
  std::vector<std::string> names;
  for (Collective c : kCollectives) {
    if (word == name(c)) return c;
    names.emplace_back(name(c));
  }
  fields.refuse(*fields.find(key), key, "one of " + join(names, ", "));
}

std::vector<Level> levels(Fields& file) {
  std::vector<Level> all;
  for (Fields& f : file.tables("level")) {
    Level level{.name = f.word("name"), .ranks = f.count("ranks", 1 << 30), .cost = message_costs(f)};
    level.meet = f.number("meet", 0, 0);
    level.hand_over = f.number("hand_over", 0, 0);
    for (Collective c : kCollectives)
      if (!level.of(c).known()) f.refuse(f.need(std::string(name(c))), std::string(name(c)), "alpha or beta above 0");
    if (!all.empty() && level.ranks <= all.back().ranks)
      f.refuse(f.need("ranks"), "ranks", fmt::format("more than the {} of the level inside", all.back().ranks));
    f.end();
    all.push_back(std::move(level));
  }
  return all;
}

std::vector<GroupCost> groups(Fields& file, const std::vector<Level>& levels) {
  std::vector<GroupCost> all;
  for (Fields& f : file.tables("group")) {
    GroupCost group{.digits = digits(f, "digits")};
    const std::string level = f.word("level");
    const auto it = std::ranges::find(levels, level, &Level::name);
    if (it == levels.end()) f.refuse(f.need("level"), "level", "the name of a [[level]]");
    group.level = static_cast<int>(it - levels.begin());
    group.cost = message_costs(f);
    f.end();
    all.push_back(std::move(group));
  }
  return all;
}

std::vector<PairCost> pairs(Fields& file) {
  std::vector<PairCost> all;
  for (Fields& f : file.tables("pair")) {
    all.push_back({.first = digits(f, "first"),
                   .second = digits(f, "second"),
                   .first_kind = collective_of(f, "first_kind"),
                   .second_kind = collective_of(f, "second_kind"),
                   .share = f.number("share", 0)});
    f.end();
  }
  return all;
}

}  // namespace

std::string to_toml(const Machine& m) {
  std::string text = fmt::format("{}name = {}\n", kHead, json_quoted(m.name));
  if (!m.note.empty()) text += fmt::format("note = {}\n", json_quoted(m.note));
  if (m.ranks > 0) text += fmt::format("ranks = {}\n", m.ranks);
  text += fmt::format("\n[compute]\nflops = {}\nmemory_bytes = {}\nstart = {}\ncrowding = {}\n", m.flops,
                      m.memory_bytes, m.start, m.crowding);
  if (!m.products.empty()) text += written(m.products);
  for (const Level& l : m.levels)
    text += fmt::format("\n[[level]]\nname = {}\nranks = {}\nmeet = {}\nhand_over = {}\n{}", json_quoted(l.name),
                        l.ranks, l.meet, l.hand_over, written(l.cost));
  for (const GroupCost& g : m.groups)
    text += fmt::format("\n[[group]]\ndigits = {}\nlevel = {}\n{}", written(g.digits),
                        json_quoted(m.levels.at(static_cast<size_t>(g.level)).name), written(g.cost));
  for (const PairCost& p : m.pairs)
    text += fmt::format("\n[[pair]]\nfirst = {}\nfirst_kind = \"{}\"\nsecond = {}\nsecond_kind = \"{}\"\nshare = {}\n",
                        written(p.first), name(p.first_kind), written(p.second), name(p.second_kind), p.share);
  return text;
}

Machine parse_machine(std::string_view toml, const std::string& file_name) {
  toml::table root;
  try {
    root = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    input_error("{}:{}: {}", file_name, error.source().begin.line, error.description());
  }
  Fields file(root, file_name, "a machine");
  Machine m{.name = file.word("name")};
  if (file.find("note")) m.note = file.word("note");
  m.ranks = file.count("ranks", 0);
  Fields compute = file.table("compute", "[compute]");
  m.flops = compute.number("flops", 1);
  m.memory_bytes = compute.number("memory_bytes", 1);
  m.start = compute.number("start", 0, 0);
  m.crowding = compute.number("crowding", 0, 0);
  if (compute.find("products"))
    for (const std::vector<double>& p : compute.rows("products", 4)) m.products.push_back({p[0], p[1], p[2], p[3]});
  compute.end();
  m.levels = levels(file);
  if (m.levels.empty()) input_error("{}: a machine needs at least one [[level]]", file_name);
  m.groups = groups(file, m.levels);
  m.pairs = pairs(file);
  file.end();
  return m;
}

Machine read_machine(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) input_error("{}: cannot read this machine file", path);
  return parse_machine(text.str(), path);
}

}  // namespace plait
