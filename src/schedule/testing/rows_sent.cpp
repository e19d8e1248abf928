#include "schedule/testing/rows_sent.h"

#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

// The sum of a table over a box of its cells.
double box_sum(const std::vector<Dim>& dims, const std::vector<Range>& box, const std::vector<double>& table) {
  std::vector<int64_t> at;
  for (const Range& r : box) {
    if (r.size == 0) return 0;
    at.push_back(r.first);
  }
  double sum = 0;
  while (true) {
    int64_t cell = 0;
    for (size_t d = 0; d < dims.size(); ++d) cell = cell * dims[d].size + at[d];
    sum += table[cell];
    int d = static_cast<int>(dims.size()) - 1;
    while (d >= 0 && ++at[d] == box[d].first + box[d].size) {
      at[d] = box[d].first;
      --d;
    }
    if (d < 0) return sum;
  }
}

std::vector<Range> box(const Mesh& mesh, const std::vector<Dim>& dims, int rank) {
  std::vector<Range> all;
  for (const Dim& dim : dims) all.push_back(local_range(mesh, dim, rank));
  return all;
}

}  // namespace

std::vector<std::vector<double>> rows_sent(const Mesh& mesh, const RaggedMove& move, const std::vector<double>& table) {
  std::vector<std::vector<double>> sent(mesh.ranks(), std::vector<double>(mesh.ranks(), 0));
  const std::vector<Atom> atoms = wire_atoms(move.legs);
  const bool reduces = collective(move.legs) == Collective::all_reduce;
  for (int q = 0; q < mesh.ranks(); ++q) {
    const std::vector<Range> to = box(mesh, move.to, q);
    for (int r : mesh.group(q, atoms)) {
      if (r == q) continue;
      std::vector<Range> both = box(mesh, move.from, r);
      if (!reduces)
        for (size_t d = 0; d < both.size(); ++d) both[d] = intersect(both[d], to[d]);
      sent[r][q] = box_sum(move.from, both, table) * (reduces ? 2.0 / mesh.count(atoms) : 1.0);
    }
  }
  return sent;
}

}  // namespace plait::oracle
