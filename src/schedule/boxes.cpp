#include "schedule/boxes.h"

#include <algorithm>

namespace plait {

Box box_of(const Mesh& mesh, const std::vector<Dim>& dims, int rank) {
  Box box;
  for (const Dim& dim : dims) box.push_back(local_range(mesh, dim, rank));
  return box;
}

Box intersect(const Box& a, const Box& b) {
  Box both;
  for (size_t d = 0; d < a.size(); ++d) both.push_back(intersect(a[d], b[d]));
  return both;
}

bool empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Range& r) { return r.size == 0; });
}

int64_t volume(const Box& box) {
  int64_t n = 1;
  for (const Range& r : box) n *= r.size;
  return n;
}

Common common_boxes(const Mesh& mesh, int rank, const Relocation& dims, const std::vector<int>& members) {
  Common c{box_of(mesh, dims.from, rank), box_of(mesh, dims.to, rank), {}, {}};
  for (int member : members) {
    c.send.push_back(intersect(c.from, box_of(mesh, dims.to, member)));
    c.receive.push_back(intersect(box_of(mesh, dims.from, member), c.to));
  }
  return c;
}

namespace {

// The runs again at every index of one more dim on the left, of which `part` is taken.
std::vector<Pieces> repeated(const std::vector<Pieces>& runs, Range part, int64_t stride) {
  const Pieces& one = runs.front();
  const bool even = one.times == 1 || one.times * one.stride == stride;
  if (runs.size() == 1 && part.size > 1 && even)
    return {{part.first * stride + one.first, one.count, one.times * part.size, one.times == 1 ? stride : one.stride}};
  std::vector<Pieces> wider;
  for (int64_t i = 0; i < part.size; ++i)
    for (const Pieces& run : runs) {
      wider.push_back(run);
      wider.back().first += (part.first + i) * stride;
    }
  return wider;
}

}  // namespace

std::vector<Pieces> runs_of(const Box& part, const Box& local) {
  if (empty(part)) return {};
  int inner = static_cast<int>(part.size()) - 1;  // the last dim of which not all is taken; right of it all is
  int64_t width = 1;
  while (inner >= 0 && part[inner] == local[inner]) width *= local[inner--].size;
  if (inner < 0) return {{0, width}};
  std::vector<Pieces> runs = {{(part[inner].first - local[inner].first) * width, part[inner].size * width}};
  int64_t stride = local[inner].size * width;
  for (int d = inner - 1; d >= 0; stride *= local[d--].size)
    runs = repeated(runs, {part[d].first - local[d].first, part[d].size}, stride);
  return runs;
}

CellRows::CellRows(Box box, const int64_t* counts) : box_(std::move(box)), starts_{0} {
  const int64_t cells = volume(box_);
  for (int64_t c = 0; c < cells; ++c) starts_.push_back(starts_.back() + counts[c]);
}

std::vector<Pieces> CellRows::of(const Box& part) const {
  std::vector<Pieces> rows;
  const Box both = intersect(box_, part);
  if (empty(both)) return rows;
  std::vector<int64_t> at;
  for (const Range& r : both) at.push_back(r.first);
  while (true) {
    int64_t cell = 0;
    for (size_t d = 0; d < both.size(); ++d) cell = cell * box_[d].size + at[d] - box_[d].first;
    const Pieces next{starts_[cell], starts_[cell + 1] - starts_[cell]};
    if (!rows.empty() && rows.back().first + rows.back().count == next.first)
      rows.back().count += next.count;
    else if (next.count > 0)
      rows.push_back(next);
    int d = static_cast<int>(both.size()) - 1;
    while (d >= 0 && ++at[d] == both[d].first + both[d].size) {
      at[d] = both[d].first;
      --d;
    }
    if (d < 0) return rows;
  }
}

int64_t count(const std::vector<Pieces>& runs) {
  int64_t n = 0;
  for (const Pieces& r : runs) n += r.total();
  return n;
}

int64_t row_elements(const Mesh& mesh, const Type& rows) {
  int64_t n = 1;
  for (size_t d = static_cast<size_t>(rows.jagged_index()) + 1; d < rows.dims.size(); ++d)
    n *= local_size(mesh, rows.dims[d]);
  return n;
}

}  // namespace plait
