#include "schedule/type.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"

namespace plait {

std::string_view name(Dtype dtype) {
  constexpr std::string_view names[] = {"real", "full", "integer", "wide"};
  return names[static_cast<int>(dtype)];
}

Hold dual(Hold hold) { return hold == Hold::R ? Hold::P : hold == Hold::P ? Hold::R : hold; }

Type dual(Type type) {
  for (Hold& hold : type.holds) hold = dual(hold);
  return type;
}

bool Dim::holds(Atom atom) const {
  return std::any_of(stack.begin(), stack.end(), [&](const Mark& mark) { return mark.atom == atom; });
}

std::string to_string(const Place& place) {
  std::string text(1, static_cast<char>(place.hold));
  return place.hold == Hold::S ? text + "(" + place.dim + ")" : text;
}

Place Type::place(Atom atom) const {
  for (const Dim& dim : dims)
    if (dim.holds(atom)) return {Hold::S, dim.name};
  return {holds[atom], {}};
}

const Dim* Type::find(std::string_view dim) const {
  auto it = std::find_if(dims.begin(), dims.end(), [&](const Dim& d) { return d.name == dim; });
  return it == dims.end() ? nullptr : &*it;
}

Dim* Type::find(std::string_view dim) { return const_cast<Dim*>(std::as_const(*this).find(dim)); }

int Type::jagged_index() const {
  auto it = std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return d.jagged(); });
  return it == dims.end() ? -1 : static_cast<int>(it - dims.begin());
}

std::vector<Dim> Type::prefix() const { return {dims.begin(), dims.begin() + std::max(jagged_index(), 0)}; }

std::vector<std::string> Type::dim_names() const { return names(dims); }

std::vector<std::string> names(const std::vector<Dim>& dims) {
  std::vector<std::string> all;
  for (const Dim& dim : dims) all.push_back(dim.name);
  return all;
}

int64_t local_size(const Mesh& mesh, const Dim& dim) {
  int64_t n = dim.size;
  for (const Mark& mark : dim.stack)
    if (mark.is_atom()) n /= mesh.size(mark.atom);
  return n;
}

std::vector<int64_t> local_shape(const Mesh& mesh, const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.dims) shape.push_back(local_size(mesh, dim));
  return shape;
}

int64_t local_elements(const Mesh& mesh, const Type& type) {
  int64_t n = 1;
  for (const Dim& dim : type.dims) n *= local_size(mesh, dim);
  return n;
}

Range local_range(const Mesh& mesh, const Dim& dim, int rank) {
  Range range{0, dim.size};
  for (const Mark& mark : dim.stack) {
    if (!mark.is_atom()) continue;
    range.size /= mesh.size(mark.atom);
    range.first += mesh.digit(rank, mark.atom) * range.size;
  }
  return range;
}

Range intersect(Range a, Range b) {
  const int64_t first = std::max(a.first, b.first), last = std::min(a.first + a.size, b.first + b.size);
  return {first, std::max<int64_t>(last - first, 0)};
}

std::string to_string(const Mesh& mesh, const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", dim.name, dim.size);
    if (dim.jagged()) text += "~" + dim.table;
    for (const Mark& m : dim.stack)
      text += "/" + (m.is_atom() ? mesh.name(m.atom) : fmt::format("{}#{}:{}", m.split, m.part, m.parts));
  }
  return "[" + text + "]";
}

std::string to_string(const Mesh& mesh, const Type& type) {
  std::string text = type.role == Role::table       ? fmt::format("table<{}> ", type.routing)
                     : type.role == Role::places    ? fmt::format("places<{},{}> ", type.routing, type.chunk)
                     : type.dtype == Dtype::integer ? "int "
                     : type.dtype == Dtype::wide    ? "wide "
                     : type.dtype == Dtype::full    ? (type.grad ? "full " : "full side ")
                     : type.grad                    ? "real "
                                                    : "side ";
  text += to_string(mesh, type.dims);
  for (Hold hold : {Hold::R, Hold::P}) {
    std::string atoms;
    for (Atom a : mesh.atoms())
      if (type.holds[a] == hold) atoms += (atoms.empty() ? "" : " ") + mesh.name(a);
    if (!atoms.empty()) text += fmt::format(" {}({})", static_cast<char>(hold), atoms);
  }
  return text;
}

}  // namespace plait
