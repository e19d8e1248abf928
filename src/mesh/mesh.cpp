#include "mesh/mesh.h"

#include <algorithm>
#include <set>

#include "base/errors.h"

namespace plait {
namespace {

struct Span {
  int from, to;  // strides: an axis is the atoms whose stride lies in [from, to)
};

Span strides(const MeshSize& m, Axis axis) {
  switch (axis) {
    case Axis::tp: return {1, m.tp};
    case Axis::dp: return {m.tp, m.ranks};
    case Axis::esp: return {1, m.esp};
    case Axis::ep: return {m.esp, m.esp * m.ep};
    case Axis::edp: return {m.esp * m.ep, m.ranks};
  }
  return {1, 1};
}

}  // namespace

std::string_view name(Axis axis) {
  constexpr std::string_view names[] = {"tp", "dp", "esp", "ep", "edp"};
  return names[static_cast<int>(axis)];
}

Mesh::Mesh(MeshSize size) : sizes_(size) {
  for (int n : {size.ranks, size.tp, size.esp, size.ep})
    if (n < 1)
      input_error("mesh: every size must be at least 1, read ranks {}, tp {}, esp {}, ep {}", size.ranks, size.tp,
                  size.esp, size.ep);
  std::set<int> cuts = {1, size.tp, size.esp, size.esp * size.ep, size.ranks};
  if (size.node > 0) cuts.insert(size.node);
  for (auto cut = cuts.begin(), next = std::next(cut); next != cuts.end(); cut = next++) {
    if (*next % *cut) {
      input_error(
          "mesh: the grids tp {} and esp {} x ep {} on {} ranks{} have no common refinement: {} does not divide {}",
          size.tp, size.esp, size.ep, size.ranks, size.node ? fmt::format(" in nodes of {}", size.node) : "", *cut,
          *next);
    }
    atom_size_.push_back(*next / *cut);
    atom_stride_.push_back(*cut);
  }
  if (*cuts.rbegin() != size.ranks) {
    input_error("mesh: esp {} x ep {} and tp {} need ranks that they divide, read {} ranks", size.esp, size.ep, size.tp,
                size.ranks);
  }
}

std::vector<Atom> Mesh::atoms() const {
  std::vector<Atom> all;
  for (Atom a = num_atoms() - 1; a >= 0; --a) all.push_back(a);
  return all;
}

std::vector<Atom> Mesh::axis(Axis axis) const {
  const Span span = strides(sizes_, axis);
  std::vector<Atom> all = atoms();
  std::erase_if(all, [&](Atom a) { return stride(a) < span.from || stride(a) >= span.to; });
  return all;
}

int Mesh::extent(Axis axis) const {
  const Span span = strides(sizes_, axis);
  return span.to / span.from;
}

int Mesh::count(std::span<const Atom> atoms) const {
  int n = 1;
  for (Atom a : atoms) n *= size(a);
  return n;
}

std::vector<int> Mesh::group(int rank, std::span<const Atom> atoms) const {
  std::vector<int> members = {rank};
  for (Atom a : atoms) members.front() -= digit(rank, a) * stride(a);
  for (Atom a : atoms) {
    std::vector<int> wider;
    for (int member : members)
      for (int d = 0; d < size(a); ++d) wider.push_back(member + d * stride(a));
    members = std::move(wider);
  }
  return members;
}

int Mesh::coordinate(int rank, Axis axis) const {
  const Span span = strides(sizes_, axis);
  return rank / span.from % (span.to / span.from);
}

std::string Mesh::name(Atom atom) const {
  std::string text;
  for (Axis axis : kAxes) {
    const Span span = strides(sizes_, axis);
    if (stride(atom) >= span.from && stride(atom) < span.to)
      text += (text.empty() ? "" : ".") + std::string(plait::name(axis));
  }
  const std::set<int> of_axes = {1, sizes_.tp, sizes_.esp, sizes_.esp * sizes_.ep, sizes_.ranks};
  const bool cut = stride(atom) * size(atom) == sizes_.node && !of_axes.count(sizes_.node);
  return cut ? text + ".node" : text;
}

std::string Mesh::coordinates(int rank) const {
  auto at = [&](Axis axis) { return coordinate(rank, axis); };
  return fmt::format("rank {} (tp {}, dp {}; esp {}, ep {}, edp {})", rank, at(Axis::tp), at(Axis::dp), at(Axis::esp),
                     at(Axis::ep), at(Axis::edp));
}

}  // namespace plait
