#include <fmt/format.h>

#include <concepts>

#include "schedule/text.h"

namespace plait {
namespace {

// Writes each field of an op as " name=value".
struct FieldPrinter {
  const Mesh& mesh;
  std::string& text;

  void operator()(const char* name, const auto& value) { text += fmt::format(" {}={}", name, show(value)); }
  void operator()(const char*, const Legs& legs) {
    for (const Leg& leg : legs)
      text += fmt::format(" {}:{}>{}", mesh.name(leg.atom), to_string(leg.from), to_string(leg.to));
  }

  std::string show(const std::string& s) { return s; }
  std::string show(double x) { return fmt::format("{}", x); }
  std::string show(const RouteSpec* gate) { return std::string(gate->name); }
  std::string show(int64_t n) { return fmt::format("{}", n); }
  std::string show(int n) { return fmt::format("{}", n); }
  std::string show(std::same_as<bool> auto b) { return b ? "true" : "false"; }
  std::string show(const Dim& dim) {
    const std::string list = to_string(mesh, std::vector<Dim>{dim});
    return list.substr(1, list.size() - 2);
  }
  std::string show(const std::vector<Dim>& dims) { return to_string(mesh, dims); }
  std::string show(const std::vector<Atom>& atoms) {
    std::string text;
    for (Atom a : atoms) text += (text.empty() ? "" : ",") + mesh.name(a);
    return text.empty() ? "-" : text;
  }
  std::string show(const std::vector<std::string>& labels) {
    return labels.empty() ? "-" : fmt::format("{}", fmt::join(labels, ","));
  }
  template <class E>
  requires std::is_enum_v<E> std::string show(E e) { return std::string(EnumNames<E>::names[static_cast<size_t>(e)]); }
};

std::string list(const Schedule& s, const std::vector<ValueId>& values, std::string_view glue) {
  std::string text;
  for (ValueId v : values) text += fmt::format("{}%{}", text.empty() ? "" : glue, s.names[v]);
  return text;
}

std::string cotangents(const Schedule& s, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId v : values) {
    auto of = s.cotangent_of.find(v);
    text += of == s.cotangent_of.end() ? " -" : " %" + s.names[of->second];
  }
  return text.find('%') == std::string::npos ? "" : " of" + text;
}

void print_fields(const Mesh& mesh, const Op& op, std::string& text) {
  FieldPrinter printer{mesh, text};
  std::visit([&](const auto& o) { o.fields(o, printer); }, op);
}

}  // namespace

std::string print_op(const Mesh& mesh, const Op& op) {
  std::string text(name(op));
  if (const Move* move = as<Move>(op)) text = title(move->legs);
  print_fields(mesh, op, text);
  return text;
}

Type as_printed(Type type, Precision precision) {
  if (precision == Precision::one && type.dtype == Dtype::wide) type.dtype = Dtype::real;
  return type;
}

std::string print_step(const Schedule& s, const Types& types, int index) {
  const Step& step = s.steps[index];
  std::string text = fmt::format("{} = {}({})", list(s, step.out, ", "), s.title(step), list(s, step.in, ", "));
  print_fields(s.mesh, step.op, text);
  for (size_t i = 0; i < step.out.size(); ++i)
    text += (i ? " ; " : " : ") + to_string(s.mesh, as_printed(types[step.out[i]], s.precision));
  return text + cotangents(s, step.out);
}

std::string print(const Schedule& s) {
  const Types types = check(s);
  const MeshSize& m = s.mesh.sizes();
  std::string text = fmt::format("{}\nmesh ranks={} tp={} esp={} ep={}", kVersionLine, m.ranks, m.tp, m.esp, m.ep);
  text += m.node ? fmt::format(" node={}\n", m.node) : "\n";
  if (s.precision == Precision::mixed) text += "precision mixed\n";
  for (const Leaf& leaf : s.leaves)
    text += fmt::format("leaf {} %{} : {}{}\n", name(leaf.kind), s.names[leaf.value],
                        to_string(s.mesh, as_printed(leaf.type, s.precision)), cotangents(s, {leaf.value}));
  for (size_t i = 0; i < s.steps.size(); ++i) text += print_step(s, types, static_cast<int>(i)) + "\n";
  if (!s.outputs.empty()) text += "outputs " + list(s, s.outputs, " ") + "\n";
  if (s.repeat) text += fmt::format("repeat {} {} {}\n", s.repeat->first, s.repeat->last, s.repeat->times);
  return text;
}

}  // namespace plait
