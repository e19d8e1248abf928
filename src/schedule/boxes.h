// Which part of a global array a rank holds, and what two ranks have in common: the message between them.
#pragma once
#include <vector>

#include "schedule/type.h"

namespace plait {

// One range of global indices for each dim.
using Box = std::vector<Range>;

Box box_of(const Mesh& mesh, const std::vector<Dim>& dims, int rank);
Box intersect(const Box& a, const Box& b);
bool empty(const Box& box);
int64_t volume(const Box& box);

// What each member of a group sends this rank and gets from it.
struct Common {
  Box from, to;                    // what this rank holds before and after
  std::vector<Box> send, receive;  // by member: what I hold and it will hold; what it holds and I will hold
};
struct Relocation {
  const std::vector<Dim>&from, &to;
};
Common common_boxes(const Mesh& mesh, int rank, const Relocation& dims, const std::vector<int>& members);

// `times` pieces of `count` consecutive elements, or rows: piece i begins at first + i * stride.
struct Pieces {
  int64_t first = 0, count = 0, times = 1, stride = 0;
  int64_t total() const { return count * times; }
  bool operator==(const Pieces&) const = default;
};

// A rank's rows: its cells in lexicographic order, each with a number of rows.
class CellRows {
 public:
  // `counts`: rows of each cell of the box, row-major.
  CellRows(Box box, const int64_t* counts);

  // The rows of the cells that also lie in `part`, in order, neighbours merged.
  std::vector<Pieces> of(const Box& part) const;
  int64_t total() const { return starts_.back(); }

 private:
  Box box_;
  std::vector<int64_t> starts_;  // of each cell, and the end
};

int64_t count(const std::vector<Pieces>& runs);

// A part of a local tensor that holds `local`, as runs of its memory, in order.
std::vector<Pieces> runs_of(const Box& part, const Box& local);

// Elements of a row that a rank holds, of a value with a jagged dim.
int64_t row_elements(const Mesh& mesh, const Type& rows);

}  // namespace plait
