#include "schedule/parse_parts.h"

#include <algorithm>

#include "base/errors.h"
#include "schedule/external.h"

namespace plait {
namespace {

// The largest size of a dim, and of what an op counts: products of three of the latter fit in 64 bits.
constexpr int64_t kMostSize = int64_t{1} << 40, kMostCount = 1 << 20;

std::vector<std::string> axis_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (Atom a : mesh.atoms()) names.push_back(mesh.name(a));
  return names;
}

}  // namespace

Atom TypeReader::atom(std::string_view stop) {
  line_.peek("");
  const size_t at = line_.at();
  const std::string name = line_.word(stop, "an axis of the mesh");
  for (Atom a = 0; a < mesh_.num_atoms(); ++a)
    if (mesh_.name(a) == name) return a;
  const std::vector<std::string> names = axis_names(mesh_);
  const std::string all = names.empty() ? "none: it has one rank" : fmt::format("{}", fmt::join(names, ", "));
  line_.fail_at(at, fmt::format("an axis of the mesh ({}), not {}", all, name), names);
}

Place TypeReader::place() {
  line_.peek("");
  const size_t at = line_.at();
  const std::string hold = line_.word("(>:", "I, R, P or S(dim)");
  if (hold == "S") {
    line_.expect("(");
    const std::string dim = line_.word(")", "a dim");
    line_.expect(")");
    return {Hold::S, dim};
  }
  if (hold != "I" && hold != "R" && hold != "P") line_.fail_at(at, "I, R, P or S(dim)");
  return {static_cast<Hold>(hold[0])};
}

Mark TypeReader::chunk(const std::string& text, size_t at) {
  const size_t hash = text.find('#');
  Line numbers("", text, 0, hash + 1);
  Mark mark{.split = text.substr(0, hash)};
  try {
    mark.part = static_cast<int>(numbers.integer(":", 0, kMostCount));
    numbers.expect(":");
    mark.parts = static_cast<int>(numbers.integer("", mark.part + 1, kMostCount));
  } catch (const InputError&) {
    line_.fail_at(at, "a chunk split#part:parts");
  }
  return mark;
}

Mark TypeReader::mark() {
  const size_t at = line_.at();
  if (const std::string text = Line(line_).word(",]/;", "an axis or a chunk"); text.find('#') != std::string::npos)
    return chunk(line_.word(",]/;", ""), at);
  return {.atom = atom(",]/;")};
}

Dim TypeReader::dim() {
  Dim d{.name = line_.word("=,]", "a dim, name=size")};
  line_.expect("=");
  d.size = line_.integer("~/,];", 1, kMostSize);
  if (line_.accept("~")) d.table = line_.word("/,];", "a routing");
  while (line_.accept("/")) d.stack.push_back(mark());
  return d;
}

std::vector<Dim> TypeReader::dims() {
  std::vector<Dim> all;
  double elements = 1;
  line_.expect("[");
  while (!line_.accept("]")) {
    line_.peek("");
    const size_t at = line_.at();
    all.push_back(dim());
    elements *= static_cast<double>(all.back().size);
    if (elements > 0x1p50) line_.fail_at(at, "at most 2^50 elements together");
    if (std::ranges::count(all, all.back().name, &Dim::name) > 1) line_.fail_at(at, "each dim once");
    if (!line_.peek("]")) line_.expect(",");
  }
  return all;
}

void TypeReader::held(Type& type, Hold hold) {
  if (!line_.accept(std::string(1, static_cast<char>(hold)) + "(")) return;
  while (!line_.accept(")")) {
    line_.peek("");
    const size_t at = line_.at();
    Hold& now = type.holds[atom(")")];
    if (now != Hold::I) line_.fail_at(at, "each axis once: in a stack, R(..) or P(..)");
    now = hold;
  }
}

Type TypeReader::type() {
  Type t{.holds = std::vector<Hold>(mesh_.num_atoms(), Hold::I)};
  kind(t);
  line_.peek("");
  const size_t at = line_.at();
  t.dims = dims();
  for (const Dim& d : t.dims) {
    int64_t size = d.size;
    for (const Mark& m : d.stack) {
      if (!m.is_atom()) continue;
      if (t.holds[m.atom] == Hold::S) line_.fail_at(at, "each axis once in the stacks");
      if (size % mesh_.size(m.atom)) line_.fail_at(at, fmt::format("a size of {} that its stack divides", d.name));
      size /= mesh_.size(m.atom);
      t.holds[m.atom] = Hold::S;
    }
  }
  for (Hold hold : {Hold::R, Hold::P}) held(t, hold);
  return t;
}

void TypeReader::kind(Type& t) {
  line_.peek("");
  const size_t at = line_.at();
  const std::string word = line_.word("[<", "a type: real, side, full, wide, int, table<r> or places<r,0>");
  t.grad = word == "real" || word == "full";
  if (word == "wide") t.dtype = Dtype::wide;
  if (word == "full") t.dtype = Dtype::full, t.grad = !line_.accept("side");
  if (t.grad || word == "side" || word == "full" || word == "wide") return;
  t.dtype = Dtype::integer;
  if (word == "int") return;
  if (word != "table" && word != "places") {
    const std::vector<std::string> words = {"real", "side", "full", "wide", "int", "table", "places"};
    line_.fail_at(at, "a type: real, side, full, wide, int, table<r> or places<r,0>", words);
  }
  t.role = word == "table" ? Role::table : Role::places;
  line_.expect("<");
  t.routing = line_.word(",>", "a routing");
  if (t.role == Role::places) {
    line_.expect(",");
    t.chunk = static_cast<int>(line_.integer(">", 0, kMostCount));
  }
  line_.expect(">");
}

namespace {

// "name=value" as it stands in a line: the line is read up to the value.
struct Written {
  std::string name;
  size_t at;  // of the name
  Line value;
};

// Gives the fields of an op what was written for them, in whatever order that was.
class FieldReader {
 public:
  FieldReader(const OpScope& scope, Line& line) : mesh_(scope.mesh), gates_(scope.known.gates), line_(line) {}

  // All that stands before the types, " : ", or the cotangents, " of ".
  void collect() {
    while (!line_.done() && !line_.peek(":") && !line_.peek("of ")) {
      Line field = line_.field();
      const size_t at = field.at();
      const std::string name = Line(field).word("=", "a field, name=value");
      field.expect(name);
      if (!field.accept("=")) field.fail_at(at, "a field, name=value");
      if (std::ranges::find(written_, name, &Written::name) != written_.end())
        field.fail_at(at, fmt::format("{} once", name));
      written_.push_back({name, at, field});
    }
  }

  void operator()(const char*, Legs& legs) {
    while (!line_.done() && !line_.peek(": ") && !line_.peek("of ")) {
      TypeReader reader(mesh_, line_);
      Leg leg{.atom = reader.atom(":")};
      line_.expect(":");
      leg.from = reader.place();
      line_.expect(">");
      leg.to = reader.place();
      legs.push_back(leg);
    }
  }
  void operator()(const char* name, auto& value) {
    known_.emplace_back(name);
    const auto written = std::ranges::find(written_, name, &Written::name);
    if (written == written_.end()) return missing_.emplace_back(name), void();
    read(written->name, written->value, value);
    if (!written->value.done()) written->value.fail("the end of the value");
  }

  // A name that the op has not is told before one that lacks: it may be the same, misspelt.
  void finish(std::string_view op) {
    for (const Written& w : written_)
      if (std::ranges::find(known_, w.name) == known_.end())
        line_.fail_at(w.at,
                      known_.empty() ? fmt::format("no field: {} has none", op)
                                     : fmt::format("a field of this {} ({})", op, fmt::join(known_, ", ")),
                      known_);
    if (!missing_.empty()) line_.fail(fmt::format("also {}=.. of {}", missing_.front(), op));
  }

 private:
  void read(const std::string&, Line& in, std::string& s) { s = in.word("", "a name"); }
  void read(const std::string&, Line& in, double& x) { x = in.real(""); }
  void read(const std::string& name, Line& in, int64_t& n) {
    static const std::set<std::string, std::less<>> may_be_zero = {"capacity", "group", "choices", "stream"};
    const bool counts = !may_be_zero.contains(name) && name != "size";
    n = in.integer("", may_be_zero.contains(name) ? 0 : 1, counts ? kMostCount : kMostSize);
  }
  void read(const std::string&, Line& in, int& n) { n = static_cast<int>(in.integer("", 1, kMostCount)); }
  void read(const std::string&, Line& in, bool& b) {
    const size_t at = in.at();
    const std::string text = in.word("", "true or false");
    if (text != "true" && text != "false") in.fail_at(at, fmt::format("true or false, not {}", text));
    b = text == "true";
  }
  void read(const std::string&, Line& in, const RouteSpec*& gate) {
    const size_t at = in.at();
    gate = find_route(gates_, in.word("", "a gate"));
    if (gate) return;
    const std::vector<std::string> names = route_names(gates_);
    in.fail_at(at, fmt::format("one of {}", fmt::join(names, ", ")), names);
  }
  void read(const std::string&, Line& in, Dim& dim) { dim = TypeReader(mesh_, in).dim(); }
  void read(const std::string&, Line& in, std::vector<Dim>& dims) { dims = TypeReader(mesh_, in).dims(); }
  void read(const std::string&, Line& in, std::vector<Atom>& atoms) {
    if (in.accept("-")) return;
    do atoms.push_back(TypeReader(mesh_, in).atom(","));
    while (in.accept(","));
  }
  void read(const std::string&, Line& in, std::vector<std::string>& labels) {
    if (in.accept("-")) return;
    do labels.push_back(in.word(",", "labels, T,D or - for none"));
    while (in.accept(","));
  }
  template <class E>
  requires std::is_enum_v<E>
  void read(const std::string&, Line& in, E& e) {
    const size_t at = in.at();
    const std::string name = in.word("", "a choice");
    const auto& names = EnumNames<E>::names;
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end())
      in.fail_at(at, fmt::format("one of {}", fmt::join(names, ", ")),
                 std::vector<std::string>(names.begin(), names.end()));
    e = static_cast<E>(it - names.begin());
  }

  const Mesh& mesh_;
  const Gates& gates_;
  Line& line_;
  std::vector<Written> written_;
  std::vector<std::string> known_, missing_;
};

// The op with the fields that are written.
template <class T>
Op filled(T op, const OpScope& scope, Line& line, std::string_view name) {
  FieldReader reader(scope, line);
  if (!std::is_same_v<T, Move>) reader.collect();
  T::fields(op, reader);
  reader.finish(name);
  return op;
}

using OpMakers = std::map<std::string, std::function<Op(const OpScope&, Line&)>, std::less<>>;

template <size_t... I>
OpMakers op_makers(std::index_sequence<I...>) {
  OpMakers makers;
  const auto add = [&]<class T>(const T*) {
    if constexpr (!std::is_same_v<T, External>)
      makers[T::kName] = [](const OpScope& scope, Line& line) { return filled(T(), scope, line, T::kName); };
  };
  (add(static_cast<const std::variant_alternative_t<I, Op>*>(nullptr)), ...);
  return makers;
}

// The kinds that a move may be called by: "exchange+gather" names two.
std::set<std::string> move_kinds() {
  std::set<std::string> kinds = {Move::kName};
  for (int k = 0; k <= static_cast<int>(MoveKind::pad); ++k) kinds.emplace(name(static_cast<MoveKind>(k)));
  return kinds;
}

bool is_move(const std::string& title) {
  static const std::set<std::string> kinds = move_kinds();
  size_t from = 0;
  while (true) {
    const size_t to = std::min(title.find('+', from), title.size());
    if (!kinds.contains(title.substr(from, to - from))) return false;
    if (to == title.size()) return true;
    from = to + 1;
  }
}

// What a move is called must be what its legs do; legs that no move has are told by check.
void expect_title(const Line& line, const Legs& legs, const std::string& title, size_t at) {
  const bool legal = std::ranges::all_of(legs, [](const Leg& leg) { return find_kind(leg) != nullptr; });
  if (legal && title != Move::kName && title != plait::title(legs))
    line.fail_at(at, fmt::format("{}: that is what its legs do", plait::title(legs)));
}

}  // namespace

Op read_op(const OpScope& scope, Line& line, const OpTitle& title) {
  static const OpMakers makers = op_makers(std::make_index_sequence<std::variant_size_v<Op>>());
  for (const ExternalOp* op : scope.known.ops)
    if (*op->name == title.name) return filled(external(*op), scope, line, title.name);
  const auto maker = makers.find(is_move(title.name) ? Move::kName : std::string_view(title.name));
  if (maker == makers.end()) {
    const std::set<std::string> kinds = move_kinds();
    std::vector<std::string> names(kinds.begin(), kinds.end());
    for (const auto& [name, make] : makers) names.push_back(name);
    for (const ExternalOp* op : scope.known.ops) names.emplace_back(*op->name);
    line.fail_at(title.at, fmt::format("a known op, not {}", title.name), names);
  }
  Op op = maker->second(scope, line);
  if (const Move* move = as<Move>(op)) expect_title(line, move->legs, title.name, title.at);
  return op;
}

}  // namespace plait
