#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "base/errors.h"
#include "schedule/external.h"
#include "schedule/text.h"

namespace plait {
namespace {

// A cursor over one line.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void fail(std::string_view expected) const {
    input_error("schedule text line {}, column {}: read \"{}\", expected {}", number_, at_ + 1, text_.substr(at_, 24),
                expected);
  }
  int number() const { return number_; }
  bool done() {
    spaces();
    return at_ >= text_.size();
  }
  bool accept(std::string_view token) {
    spaces();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("\"{}\"", token));
  }
  bool peek(std::string_view token) {
    spaces();
    return text_.substr(at_, token.size()) == token;
  }
  // The longest run of characters that are none of `stop`.
  std::string word(std::string_view stop, std::string_view what) {
    spaces();
    const size_t end = std::min(text_.find_first_of(stop, at_), text_.size());
    if (end == at_) fail(what);
    std::string w(text_.substr(at_, end - at_));
    at_ = end;
    return w;
  }
  std::string value() {
    expect("%");
    return word(" ,)=;:", "a value's name");
  }
  template <class T>
  T number(std::string_view stop, std::string_view what) {
    const size_t start = at_;
    const std::string w = word(stop, what);
    T n{};
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), n);
    if (error != std::errc() || end != w.data() + w.size()) {
      at_ = start;
      fail(what);
    }
    return n;
  }

 private:
  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string_view text_;
  int number_;
  size_t at_ = 0;
};

class TypeReader {
 public:
  TypeReader(const Mesh& mesh, Line& line) : mesh_(mesh), line_(line) {}

  Atom atom(const std::string& name) {
    for (Atom a = 0; a < mesh_.num_atoms(); ++a)
      if (mesh_.name(a) == name) return a;
    line_.fail(fmt::format("an axis of the mesh, not {}", name));
  }

  Place place() {
    const std::string hold = line_.word("( >:", "I, R, P or S(dim)");
    if (hold == "S") {
      line_.expect("(");
      const std::string dim = line_.word(")", "a dim");
      line_.expect(")");
      return {Hold::S, dim};
    }
    if (hold != "I" && hold != "R" && hold != "P") line_.fail("I, R, P or S(dim)");
    return {static_cast<Hold>(hold[0])};
  }

  Mark mark() {
    const std::string text = line_.word(",]/; ", "an axis or a chunk");
    const size_t hash = text.find('#');
    if (hash == std::string::npos) return {.atom = atom(text)};
    Mark mark{.split = text.substr(0, hash)};
    if (std::sscanf(text.c_str() + hash, "#%d:%d", &mark.part, &mark.parts) != 2) line_.fail("a chunk id#part:parts");
    return mark;
  }

  Dim dim() {
    Dim d{.name = line_.word("=", "a dim")};
    line_.expect("=");
    d.size = line_.number<int64_t>("~/,]; ", "a size");
    if (line_.accept("~")) d.table = line_.word("/,]; ", "a table");
    while (line_.accept("/")) d.stack.push_back(mark());
    return d;
  }

  std::vector<Dim> dims() {
    std::vector<Dim> all;
    line_.expect("[");
    while (!line_.accept("]")) {
      all.push_back(dim());
      if (!line_.peek("]")) line_.expect(",");
    }
    return all;
  }

  Type type() {
    Type t{.holds = std::vector<Hold>(mesh_.num_atoms(), Hold::I)};
    kind(t);
    t.dims = dims();
    for (const Dim& d : t.dims)
      for (const Mark& m : d.stack)
        if (m.is_atom()) t.holds[m.atom] = Hold::S;
    for (Hold hold : {Hold::R, Hold::P}) {
      if (!line_.accept(std::string(1, static_cast<char>(hold)) + "(")) continue;
      while (!line_.accept(")")) t.holds[atom(line_.word(" )", "an axis"))] = hold;
    }
    return t;
  }

 private:
  void kind(Type& t) {
    if (line_.accept("real")) return;
    if (line_.accept("wide")) {
      t.dtype = Dtype::wide;
      t.grad = false;
      return;
    }
    if (line_.accept("full")) t.dtype = Dtype::full;
    t.grad = t.dtype == Dtype::full && !line_.accept("side");
    if (t.dtype == Dtype::full || line_.accept("side")) return;
    t.dtype = Dtype::integer;
    if (line_.accept("int")) return;
    const bool table = line_.accept("table<");
    if (!table) line_.expect("places<");
    t.role = table ? Role::table : Role::places;
    t.routing = line_.word(",>", "a routing");
    if (!table) {
      line_.expect(",");
      t.chunk = line_.number<int>(">", "a chunk");
    }
    line_.expect(">");
  }

  const Mesh& mesh_;
  Line& line_;
};

std::vector<std::string_view> route_names(const Gates& gates) {
  std::vector<std::string_view> names;
  for (const GateSpec* gate : gates)
    for (const RouteSpec* route : {gate->route, gate->topk_first})
      if (route && std::find(names.begin(), names.end(), route->name) == names.end()) names.push_back(route->name);
  return names;
}

// Reads the fields of an op in the order in which they are printed.
struct FieldReader {
  const Mesh& mesh;
  Line& line;
  const Gates& gates;

  void operator()(const char*, Legs& legs) {
    TypeReader reader(mesh, line);
    while (!line.done() && !line.peek(": ")) {
      Leg leg{.atom = reader.atom(line.word(":", "an axis"))};
      line.expect(":");
      leg.from = reader.place();
      line.expect(">");
      leg.to = reader.place();
      legs.push_back(leg);
    }
  }
  void operator()(const char* name, auto& value) {
    line.expect(std::string(name) + "=");
    read(value);
  }

  void read(std::string& s) { s = line.word(" ", "a name"); }
  void read(double& x) { x = line.number<double>(" ", "a number"); }
  void read(int64_t& n) { n = line.number<int64_t>(" ", "a number"); }
  void read(int& n) { n = line.number<int>(" ", "a number"); }
  void read(bool& b) {
    const std::string text = line.word(" ", "true or false");
    if (text != "true" && text != "false") line.fail(fmt::format("true or false, not {}", text));
    b = text == "true";
  }
  void read(const RouteSpec*& gate) {
    const std::string name = line.word(" ", "a gate");
    gate = find_route(gates, name);
    if (!gate) line.fail(fmt::format("one of {}", fmt::join(route_names(gates), ", ")));
  }
  void read(Dim& dim) { dim = TypeReader(mesh, line).dim(); }
  void read(std::vector<Dim>& dims) { dims = TypeReader(mesh, line).dims(); }
  void read(std::vector<Atom>& atoms) {
    std::vector<std::string> names;
    read(names);
    for (const std::string& name : names) atoms.push_back(TypeReader(mesh, line).atom(name));
  }
  void read(std::vector<std::string>& labels) {
    std::string all = line.word(" ", "labels");
    if (all == "-") return;
    for (size_t from = 0; from <= all.size();) {
      const size_t to = std::min(all.find(',', from), all.size());
      labels.push_back(all.substr(from, to - from));
      from = to + 1;
    }
  }
  template <class E>
  requires std::is_enum_v<E>
  void read(E& e) {
    const std::string name = line.word(" ", "a choice");
    const auto& names = EnumNames<E>::names;
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) line.fail(fmt::format("one of {}", fmt::join(names, ", ")));
    e = static_cast<E>(it - names.begin());
  }
};

using OpMakers = std::map<std::string, std::function<Op(const Mesh&, Line&, const Gates&)>, std::less<>>;

template <size_t... I>
OpMakers op_makers(std::index_sequence<I...>) {
  OpMakers makers;
  const auto add = [&]<class T>(const T*) {
    if constexpr (!std::is_same_v<T, External>)
      makers[T::kName] = [](const Mesh& mesh, Line& line, const Known& known) -> Op {
        T op;
        FieldReader reader{mesh, line, known.gates};
        T::fields(op, reader);
        return op;
      };
  };
  (add(static_cast<const std::variant_alternative_t<I, Op>*>(nullptr)), ...);
  return makers;
}

bool is_move_title(std::string_view title) {
  const std::string_view first = title.substr(0, title.find('+'));
  for (int k = 0; k <= static_cast<int>(MoveKind::pad); ++k)
    if (first == name(static_cast<MoveKind>(k))) return true;
  return first == "move";
}

class Parser {
 public:
  explicit Parser(const Known& known) : known_(known) { expect_own_names(known.ops); }

  Schedule run(std::string_view text) {
    int number = 0;
    for (size_t from = 0; from < text.size();) {
      const size_t to = std::min(text.find('\n', from), text.size());
      Line line(text.substr(from, to - from), ++number);
      if (!line.done() && !line.peek("#")) {
        read(line);
        if (!line.done()) line.fail("the end of the line");
      }
      from = to + 1;
    }
    for (Cotangent& c : later_) s_.cotangent_of[c.value] = get(c.of, c.line);
    const Types types = check(s_);
    for (const Written& w : written_)
      if (as_printed(types[w.value], s_.precision) != as_printed(w.type, s_.precision))
        throw TypeFault(fmt::format("schedule text line {}: %{}: the text says {}, it is {}", w.line, s_.names[w.value],
                                    to_string(s_.mesh, w.type), to_string(s_.mesh, types[w.value])));
    return std::move(s_);
  }

 private:
  ValueId make(const std::string& name, Line& line) {
    if (ids_.count(name)) line.fail(fmt::format("a new name, %{} is taken", name));
    return ids_[name] = s_.add_value(name);
  }
  ValueId get(const std::string& name, Line& line) {
    auto it = ids_.find(name);
    if (it == ids_.end()) line.fail(fmt::format("a value made above, not %{}", name));
    return it->second;
  }

  void read(Line& line) {
    if (line.accept("mesh ")) return mesh(line);
    if (line.accept("precision mixed")) return void(s_.precision = Precision::mixed);
    if (line.accept("leaf ")) return leaf(line);
    if (line.accept("outputs")) {
      while (!line.done()) s_.outputs.push_back(get(line.value(), line));
      return;
    }
    if (line.accept("repeat ")) {
      s_.repeat.emplace();
      for (int* n : {&s_.repeat->first, &s_.repeat->last, &s_.repeat->times}) *n = line.number<int>(" ", "a number");
      return;
    }
    step(line);
  }

  void mesh(Line& line) {
    MeshSize m;
    const std::pair<const char*, int*> fields[] = {
        {"ranks=", &m.ranks}, {"tp=", &m.tp}, {"esp=", &m.esp}, {"ep=", &m.ep}};
    for (const auto& [key, value] : fields) {
      line.expect(key);
      *value = line.number<int>(" ", "a number");
    }
    if (line.accept("node=")) m.node = line.number<int>(" ", "a number");
    try {
      s_.mesh = Mesh(m);
    } catch (const InputError& e) {
      input_error("schedule text line {}: {}", line.number(), e.what());
    }
  }

  void leaf(Line& line) {
    const std::string kind = line.word(" ", "a kind of leaf");
    Leaf leaf;
    int k = 0;
    while (k <= static_cast<int>(LeafKind::sum) && name(static_cast<LeafKind>(k)) != kind) ++k;
    if (k > static_cast<int>(LeafKind::sum)) line.fail(fmt::format("a kind of leaf, not {}", kind));
    leaf.kind = static_cast<LeafKind>(k);
    leaf.value = make(line.value(), line);
    line.expect(":");
    leaf.type = TypeReader(s_.mesh, line).type();
    if (leaf.kind == LeafKind::scalar && !leaf.type.grad && leaf.type.dtype == Dtype::real)
      leaf.type.dtype = Dtype::wide;
    s_.leaves.push_back(leaf);
    if (line.accept("of ")) cotangents(line, {leaf.value});
  }

  void step(Line& line) {
    std::vector<std::string> outs = {line.value()};
    while (line.accept(",")) outs.push_back(line.value());
    line.expect("=");
    const std::string title = line.word("(", "an op");
    line.expect("(");
    Step step;
    while (!line.accept(")")) {
      step.in.push_back(get(line.value(), line));
      if (!line.peek(")")) line.expect(",");
    }
    step.op = op(title, line);
    for (const std::string& name : outs) step.out.push_back(make(name, line));
    s_.steps.push_back(step);
    if (line.accept(":")) types(line, step.out);
    if (line.accept("of ")) cotangents(line, step.out);
  }

  Op op(const std::string& title, Line& line) {
    for (const ExternalOp* op : ops_) {
      if (*op->name != title) continue;
      External external = plait::external(*op);
      FieldReader reader{s_.mesh, line};
      External::fields(external, reader);
      return external;
    }
    static const OpMakers makers = op_makers(std::make_index_sequence<std::variant_size_v<Op>>());
    const auto maker = makers.find(is_move_title(title) ? Move::kName : std::string_view(title));
    if (maker == makers.end()) line.fail(fmt::format("a known op, not {}", title));
    return maker->second(s_.mesh, line);
  }

  void types(Line& line, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) line.expect(";");
      written_.push_back({values[i], TypeReader(s_.mesh, line).type(), line.number()});
    }
  }

  void cotangents(Line& line, const std::vector<ValueId>& values) {
    for (ValueId v : values)
      if (!line.accept("-")) later_.push_back({v, line.value(), line});
  }

  const Known& known_;
  Schedule s_;
  std::map<std::string, ValueId> ids_;

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
  };
  std::vector<Cotangent> later_;
};

}  // namespace

Schedule parse_schedule(std::string_view text, const Known& known) { return Parser(known).run(text); }

}  // namespace plait
