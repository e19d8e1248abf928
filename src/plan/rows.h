// How many rows a rank holds of values whose number of rows is known only when the step runs.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "schedule/boxes.h"

namespace plait {

// How many rows each cell of a routing has, in the world: row-major over its table's dims [h, E, g..], whole.
using RowTables = std::map<std::string, std::vector<int64_t>>;  // by id of the routing

class RowCounts {
 public:
  // Without tables every cell has the expected number. `mesh` and `tables` must outlive it.
  RowCounts(const Mesh& mesh, int rank, const RowTables* tables) : mesh_(&mesh), rank_(rank), tables_(tables) {}

  // Of each cell that the rank holds, in order. REQUIRES a type with a jagged dim.
  std::vector<int64_t> cells(const Type& rows) const;
  int64_t total(const Type& rows) const;

 private:
  const Mesh* mesh_;
  int rank_;
  const RowTables* tables_;
};

// Elements that a rank holds of a value.
int64_t elements(const Mesh& mesh, const Type& type, const RowCounts& rows);

}  // namespace plait
