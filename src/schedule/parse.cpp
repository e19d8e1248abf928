// A list from its text, line by line; then check types it, and what check finds is told with the line it stands on.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/errors.h"
#include "base/files.h"
#include "base/text.h"
#include "schedule/external.h"
#include "schedule/parse_parts.h"
#include "schedule/text.h"

namespace plait {
namespace {

constexpr int kMostRanks = 1 << 20;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, to - from));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
    from = to + 1;
  }
  return lines;
}

bool is_binary(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' && c != '\n' && c != '\r' && c != '\t'; });
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, const Known& known)
      : known_(known), file_(file), lines_(lines_of(text)) {
    expect_own_names(known.ops);
    if (is_binary(text))
      input_error("{}:1: read a binary file, expected a schedule as text, the line \"{}\" first", file, kVersionLine);
  }

  Schedule run() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      Line line(file_, lines_[i], static_cast<int>(i) + 1);
      if (line.done() || line.peek("#")) continue;
      read(line);
      if (!line.done()) line.fail("the end of the line");
    }
    if (stage_ < Stage::list)
      input_error("{}:{}: read the end of the file, expected the line {}", file_, lines_.size() + 1,
                  stage_ == Stage::version ? fmt::format("\"{}\"", kVersionLine) : "mesh ranks=..");
    for (Cotangent& c : later_) s_.cotangent_of[c.value] = get(c.of, c.line, c.at);
    expect_types(typed());
    return std::move(s_);
  }

 private:
  enum class Stage { version, mesh, list, outputs, repeat };  // what comes next, or came last

  // ---- the list as a whole

  Types typed() const {
    try {
      return check(s_);
    } catch (const TypeFault& fault) {
      TypeFault here(fmt::format("{}:{}: {}", file_, line_of(fault.part), fault.what()));
      here.part = fault.part;
      throw here;
    }
  }

  int line_of(const ListPart& part) const {
    switch (part.what) {
      case ListPart::What::leaf: return made_.at(s_.names[s_.leaves[part.index].value]).line;
      case ListPart::What::step: return step_lines_[part.index];
      case ListPart::What::outputs: return outputs_line_;
      case ListPart::What::repeat: return repeat_line_;
    }
    return 1;
  }

  void expect_types(const Types& types) const {
    for (const Written& w : written_)
      if (as_printed(types[w.value], s_.precision) != as_printed(w.type, s_.precision))
        throw TypeFault(fmt::format("{}:{}: %{}: the text says {}, it is {}", file_, w.line, s_.names[w.value],
                                    to_string(s_.mesh, w.type), to_string(s_.mesh, types[w.value])));
  }

  // ---- values

  ValueId make(const std::string& name, Line& line, size_t at) {
    if (const auto made = made_.find(name); made != made_.end())
      line.fail_at(at, fmt::format("a new name, %{} is taken by line {}", name, made->second.line));
    const ValueId value = s_.add_value(name);
    made_[name] = {value, line.number()};
    return value;
  }

  ValueId get(const std::string& name, const Line& line, size_t at) const {
    if (const auto made = made_.find(name); made != made_.end()) return made->second.value;
    if (const int below = line_that_makes(name))
      line.fail_at(at, fmt::format("a value made above, %{} is made on line {}", name, below));
    std::vector<std::string> names;
    for (const auto& [known, made] : made_) names.push_back("%" + known);
    line.fail_at(at, fmt::format("a value made above, not %{}", name), names);
  }

  // 0 where none does.
  int line_that_makes(const std::string& name) const {
    for (size_t i = 0; i < lines_.size(); ++i)
      if (makes(lines_[i], fmt::format("%{}", name))) return static_cast<int>(i) + 1;
    return 0;
  }

  // Whether the value stands in front of " = ", or behind "leaf KIND".
  static bool makes(std::string_view line, const std::string& value) {
    if (!line.starts_with('%') && !line.starts_with("leaf ")) return false;
    const std::string_view made = line.substr(0, line.find(line.starts_with('%') ? " = " : " : "));
    const size_t at = made.find(value), end = at + value.size();
    return at != std::string_view::npos && (end == made.size() || made[end] == ',');
  }

  // ---- lines

  void read(Line& line) {
    if (stage_ == Stage::version) return version(line);
    if (stage_ == Stage::mesh) return mesh(line);
    if (stage_ != Stage::list) {
      if (stage_ == Stage::outputs && line.accept("repeat ")) return repeat(line);
      line.fail(stage_ == Stage::outputs ? "the end of the file, or repeat: outputs end a list"
                                         : "the end of the file");
    }
    if (line.peek("%")) return step(line);
    if (line.accept("leaf ")) return leaf(line);
    if (line.accept("outputs")) return outputs(line);
    if (line.accept("repeat ")) return repeat(line);
    if (line.accept("precision ")) return precision(line);
    const std::vector<std::string> words = {"leaf", "outputs", "repeat", "precision"};
    line.fail_at(line.at(), "a line of the list: leaf .., %x = op(..), outputs .. or repeat ..", words);
  }

  void version(Line& line) {
    line.done();
    const size_t at = line.at();
    if (!line.accept("plait schedule ")) line.fail(fmt::format("the line \"{}\" first: add it", kVersionLine));
    if (line.integer("", 0, kMostRanks) != kVersion)
      line.fail_at(at, fmt::format("\"{}\", the version that this program reads", kVersionLine));
    stage_ = Stage::mesh;
  }

  void mesh(Line& line) {
    if (!line.accept("mesh ")) line.fail("the line mesh ranks=.. tp=.. esp=.. ep=..");
    MeshSize m;
    const std::map<std::string, int*> sizes = {
        {"ranks", &m.ranks}, {"tp", &m.tp}, {"esp", &m.esp}, {"ep", &m.ep}, {"node", &m.node}};
    std::set<std::string> seen;
    while (!line.done()) mesh_size(line, sizes, seen);
    for (const char* name : {"ranks", "tp", "esp", "ep"})
      if (!seen.contains(name)) line.fail(fmt::format("also {}=.. of the mesh", name));
    if (int64_t{m.esp} * m.ep > kMostRanks) line.fail(fmt::format("esp x ep of at most {}", kMostRanks));
    try {
      s_.mesh = Mesh(m);
    } catch (const InputError& e) {
      input_error("{}: {}", line.place(), e.what());
    }
    stage_ = Stage::list;
  }

  static void mesh_size(Line& line, const std::map<std::string, int*>& sizes, std::set<std::string>& seen) {
    const size_t at = line.at();
    const std::string name = line.word("=", "a size of the mesh");
    std::vector<std::string> names;
    for (const auto& [known, size] : sizes) names.push_back(known);
    if (!sizes.contains(name)) line.fail_at(at, "ranks=, tp=, esp=, ep= or node=", names);
    if (!seen.insert(name).second) line.fail_at(at, fmt::format("{} once", name));
    line.expect("=");
    *sizes.at(name) = static_cast<int>(line.integer("", 1, kMostRanks));
  }

  void precision(Line& line) {
    if (!s_.names.empty()) line.fail("precision above all leaves and steps");
    line.expect("mixed");
    s_.precision = Precision::mixed;
  }

  void leaf(Line& line) {
    line.done();
    const size_t at = line.at();
    const std::string kind = line.word("", "a kind of leaf");
    std::vector<std::string> kinds;
    for (int k = 0; k <= static_cast<int>(LeafKind::sum); ++k) kinds.emplace_back(name(static_cast<LeafKind>(k)));
    const auto it = std::ranges::find(kinds, kind);
    if (it == kinds.end())
      line.fail_at(at, fmt::format("a kind of leaf ({}), not {}", fmt::join(kinds, ", "), kind), kinds);
    Leaf leaf{.kind = static_cast<LeafKind>(it - kinds.begin())};
    line.done();
    const size_t named = line.at();
    leaf.value = make(line.value(), line, named);
    line.expect(":");
    leaf.type = TypeReader(s_.mesh, line).type();
    if (leaf.kind == LeafKind::scalar && !leaf.type.grad && leaf.type.dtype == Dtype::real)
      leaf.type.dtype = Dtype::wide;
    s_.leaves.push_back(leaf);
    if (line.accept("of ")) cotangents(line, {leaf.value});
  }

  void outputs(Line& line) {
    while (!line.done()) {
      const size_t at = line.at();
      s_.outputs.push_back(get(line.value(), line, at));
    }
    outputs_line_ = line.number();
    stage_ = Stage::outputs;
  }

  void repeat(Line& line) {
    s_.repeat.emplace();
    s_.repeat->first = static_cast<int>(line.integer("", 0, 1 << 30));
    s_.repeat->last = static_cast<int>(line.integer("", 0, 1 << 30));
    s_.repeat->times = static_cast<int>(line.integer("", 1, 1 << 30));
    repeat_line_ = line.number();
    stage_ = Stage::repeat;
  }

  struct Name {
    std::string name;
    size_t at;
  };
  static Name value(Line& line) {
    line.done();
    const size_t at = line.at();
    return {line.value(), at};
  }

  void step(Line& line) {
    std::vector<Name> outs = {value(line)};
    while (line.accept(",")) outs.push_back(value(line));
    line.expect("=");
    line.done();
    const size_t at = line.at();
    const std::string title = line.word("(", "an op");
    Step step{.in = operands(line)};
    step.op = read_op({s_.mesh, known_}, line, {title, at});
    for (const Name& out : outs) step.out.push_back(make(out.name, line, out.at));
    s_.steps.push_back(step);
    step_lines_.push_back(line.number());
    if (line.accept(":")) types(line, step.out);
    if (line.accept("of ")) cotangents(line, step.out);
  }

  std::vector<ValueId> operands(Line& line) const {
    std::vector<ValueId> in;
    line.expect("(");
    while (!line.accept(")")) {
      const Name operand = value(line);
      in.push_back(get(operand.name, line, operand.at));
      if (!line.peek(")")) line.expect(",");
    }
    return in;
  }

  void types(Line& line, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) line.expect(";");
      written_.push_back({values[i], TypeReader(s_.mesh, line).type(), line.number()});
    }
  }

  void cotangents(Line& line, const std::vector<ValueId>& values) {
    for (ValueId v : values) {
      if (line.accept("-")) continue;
      const Name of = value(line);
      later_.push_back({v, of.name, line, of.at});
    }
  }

  const Known& known_;
  std::string_view file_;
  std::vector<std::string_view> lines_;
  Stage stage_ = Stage::version;
  Schedule s_;

  struct Made {
    ValueId value = 0;
    int line = 0;
  };
  std::map<std::string, Made> made_;
  std::vector<int> step_lines_;
  int outputs_line_ = 1, repeat_line_ = 1;

  // What a line says of a value's type; compared with what check infers.
  struct Written {
    ValueId value;
    Type type;
    int line;
  };
  std::vector<Written> written_;

  // The cotangent of a value that may be made further down (the seed is a leaf).
  struct Cotangent {
    ValueId value;
    std::string of;
    Line line;
    size_t at;
  };
  std::vector<Cotangent> later_;
};

}  // namespace

Schedule parse_schedule(std::string_view text, std::string_view file, const Known& known) {
  return Parser(text, file, known).run();
}

Schedule read_schedule(const std::string& path) {
  if (std::filesystem::is_directory(path)) input_error("{}: is a folder, expected a schedule as text", path);
  return parse_schedule(read_text(path), path);
}

Op parse_op(const Mesh& mesh, std::string_view text) {
  Line line("op", text, 1);
  const std::string title = line.word("", "an op");
  Op op = read_op({mesh, {}}, line, {title, 0});
  if (!line.done()) line.fail("the end of the op");
  return op;
}

}  // namespace plait
