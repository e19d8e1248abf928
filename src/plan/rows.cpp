#include "plan/rows.h"

#include <numeric>

#include "base/errors.h"

namespace plait {
namespace {

// How many parts a chunk's dim was split into, and which one this is.
struct Chunk {
  int64_t part = 0, parts = 1;
};

Chunk chunk_of(const Dim& dim) {
  for (const Mark& mark : dim.stack)
    if (!mark.is_atom()) return {mark.part, mark.parts};
  return {};
}

}  // namespace

std::vector<int64_t> RowCounts::cells(const Type& rows) const {
  const std::vector<Dim> prefix = rows.prefix();
  const Dim& jagged = rows.dims[static_cast<size_t>(rows.jagged_index())];
  const Box box = box_of(*mesh_, prefix, rank_);
  if (!tables_) return std::vector<int64_t>(static_cast<size_t>(volume(box)), jagged.size);
  const auto found = tables_->find(jagged.table);
  expects(found != tables_->end(), "the memory of rows: no table of " + jagged.table);
  const std::vector<int64_t>& table = found->second;
  std::vector<int64_t> places = {0}, next;  // in the whole table
  int64_t all = 1;
  for (size_t d = 0; d < box.size(); ++d) {
    const Chunk chunk = chunk_of(prefix[d]);
    const int64_t size = prefix[d].size * chunk.parts, first = box[d].first + chunk.part * prefix[d].size;
    next.clear();
    for (int64_t place : places)
      for (int64_t i = 0; i < box[d].size; ++i) next.push_back(place * size + first + i);
    places = next;
    all *= size;
  }
  expects(static_cast<int64_t>(table.size()) == all, "the memory of rows: a table of another size");
  for (int64_t& place : places) place = table[static_cast<size_t>(place)];
  return places;
}

int64_t RowCounts::total(const Type& rows) const {
  const std::vector<int64_t> all = cells(rows);
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

int64_t elements(const Mesh& mesh, const Type& type, const RowCounts& rows) {
  return type.jagged_index() < 0 ? local_elements(mesh, type) : rows.total(type) * row_elements(mesh, type);
}

}  // namespace plait
