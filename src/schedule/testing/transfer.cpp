#include "schedule/testing/transfer.h"

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "schedule/wire_bytes.h"

namespace plait::oracle {
namespace {

PerRank add_parts(const Mesh& mesh, Atom atom, const PerRank& local) {
  PerRank sums;
  for (int r = 0; r < mesh.ranks(); ++r) {
    Array sum(local[r].shape);
    for (int q : mesh.group(r, std::span(&atom, 1))) add_to(sum, local[q]);
    sums.push_back(std::move(sum));
  }
  return sums;
}

// S -> P: each rank its own chunk among zeros, so that the sum is the whole.
PerRank join_parts(const Mesh& mesh, const Leg& leg, size_t dim, const PerRank& local) {
  PerRank joined;
  for (int r = 0; r < mesh.ranks(); ++r) {
    const Array zero(local[r].shape);
    std::vector<const Array*> parts;
    for (int q : mesh.group(r, std::span(&leg.atom, 1)))
      parts.push_back(leg.to.hold == Hold::P && q != r ? &zero : &local[q]);
    joined.push_back(concat(parts, dim));
  }
  return joined;
}

}  // namespace

PerRank move_dense(const Mesh& mesh, const Type& from, const Legs& legs, PerRank local) {
  for (auto leg = legs.rbegin(); leg != legs.rend(); ++leg) {
    if (leg->from.hold == Hold::P) local = add_parts(mesh, leg->atom, local);
    if (leg->from.hold == Hold::S) local = join_parts(mesh, *leg, array_dim(from, leg->from.dim), local);
  }
  for (const Leg& leg : legs) {
    if (leg.to.hold != Hold::S) continue;
    const size_t dim = array_dim(from, leg.to.dim);
    for (int r = 0; r < mesh.ranks(); ++r)
      local[r] = chunk(local[r], dim, mesh.size(leg.atom), mesh.digit(r, leg.atom));
  }
  return local;
}

// One rank's part filled with ones and every other with zeros: where ones arrive, elements were sent.
std::vector<std::vector<double>> elements_sent(const Mesh& mesh, const Type& from, const Legs& legs,
                                               const PerRank& local) {
  std::vector<std::vector<double>> sent;
  for (int r = 0; r < mesh.ranks(); ++r) {
    PerRank marked;
    for (int q = 0; q < mesh.ranks(); ++q) marked.emplace_back(local[q].shape);
    std::fill(marked[r].data.begin(), marked[r].data.end(), 1.0);
    const PerRank arrived = move_dense(mesh, from, legs, marked);
    sent.emplace_back(mesh.ranks(), 0.0);
    for (int q = 0; q < mesh.ranks(); ++q)
      if (q != r) sent[r][q] = static_cast<double>(std::count(arrived[q].data.begin(), arrived[q].data.end(), 1.0));
  }
  return sent;
}

namespace {

struct CellRows {
  int64_t first = 0, count = 0;
};

// Where each of a rank's cells lies among its rows, by the cell's global index.
std::map<int64_t, CellRows> cell_rows(const Mesh& mesh, const Type& type, const Array& table, int rank) {
  std::map<int64_t, CellRows> all;
  int64_t at = 0, i = 0;
  for (int64_t cell : cells(mesh, type.prefix(), rank)) {
    const auto count = static_cast<int64_t>(table[i++]);
    all[cell] = {at, count};
    at += count;
  }
  expects(i == table.size(), "a table has a count for each of the rank's cells");
  return all;
}

int64_t num_rows(const std::map<int64_t, CellRows>& cells) {
  int64_t n = 0;
  for (const auto& [cell, rows] : cells) n += rows.count;
  return n;
}

}  // namespace

PerRank move_rows(const Mesh& mesh, const RowsMove& move, const PerRank& local, const RowTables& tables,
                  std::vector<std::vector<double>>& sent) {
  std::vector<std::map<int64_t, CellRows>> have, need;
  for (int r = 0; r < mesh.ranks(); ++r) {
    have.push_back(cell_rows(mesh, move.from, tables.from[r], r));
    need.push_back(cell_rows(mesh, move.to, tables.to[r], r));
    expects(num_rows(have[r]) == local[r].shape[0], "a sender's table counts its rows");
  }
  sent.assign(mesh.ranks(), std::vector<double>(mesh.ranks(), 0));
  PerRank out;
  for (int q = 0; q < mesh.ranks(); ++q) {
    std::vector<int64_t> shape = local[q].shape;
    shape[0] = num_rows(need[q]);
    Array y(shape);
    for (int r : mesh.group(q, wire_atoms(move.legs))) {
      for (const auto& [cell, to] : need[q]) {
        const auto from = have[r].find(cell);
        if (from == have[r].end()) continue;
        expects(from->second.count == to.count, "sender and receiver count a cell alike");
        const int64_t width = y.stride(0);
        for (int64_t i = 0; i < to.count * width; ++i)
          y[to.first * width + i] += local[r][from->second.first * width + i];
        if (r != q) sent[r][q] += static_cast<double>(to.count);
      }
    }
    out.push_back(std::move(y));
  }
  return out;
}

}  // namespace plait::oracle
