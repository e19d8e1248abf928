#include "schedule/testing/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "base/random.h"

namespace plait::oracle {

int64_t elements(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

Array::Array(std::vector<int64_t> shape_) : shape(std::move(shape_)), data(elements(shape), 0.0) {}

Array::Array(std::vector<int64_t> shape_, std::vector<double> data_)
    : shape(std::move(shape_)), data(std::move(data_)) {
  expects(elements(shape) == size(), "an array's shape counts its elements");
}

int64_t Array::stride(size_t dim) const { return elements(std::span(shape).subspan(dim + 1)); }

Array concat(const std::vector<const Array*>& parts, size_t dim) {
  std::vector<int64_t> shape = parts.front()->shape;
  shape[dim] = 0;
  for (const Array* part : parts) shape[dim] += part->shape[dim];
  Array whole(shape);
  const int64_t outer = elements(std::span(shape).first(dim)), run = shape[dim] * whole.stride(dim);
  int64_t at = 0;
  for (const Array* part : parts) {
    const int64_t n = part->shape[dim] * whole.stride(dim);
    for (int64_t i = 0; i < outer; ++i) std::copy_n(part->data.begin() + i * n, n, whole.data.begin() + i * run + at);
    at += n;
  }
  return whole;
}

Array chunk(const Array& x, size_t dim, int64_t chunks, int64_t index) {
  std::vector<int64_t> shape = x.shape;
  expects(shape[dim] % chunks == 0, "chunks are equal");
  shape[dim] /= chunks;
  Array part(shape);
  const int64_t n = shape[dim] * x.stride(dim);
  for (int64_t i = 0; i < elements(std::span(shape).first(dim)); ++i)
    std::copy_n(x.data.begin() + (i * chunks + index) * n, n, part.data.begin() + i * n);
  return part;
}

void add_to(Array& sum, const Array& x) {
  expects(sum.shape == x.shape, "a sum of arrays of one shape");
  for (int64_t i = 0; i < x.size(); ++i) sum[i] += x[i];
}

double max_difference(const Array& a, const Array& b) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (a.shape != b.shape) return infinite;
  double worst = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= worst)) worst = std::isnan(d) ? infinite : d;
  }
  return worst;
}

Array normal_array(std::vector<int64_t> shape, const std::string& name, double scale) {
  Array x(std::move(shape));
  const uint64_t key = random_key(1, name);
  for (int64_t i = 0; i < x.size(); ++i) x[i] = scale * normal(key, i);
  return x;
}

size_t array_dim(const Type& type, const std::string& dim) {
  const int jagged = std::max(type.jagged_index(), 0);
  for (size_t i = jagged; i < type.dims.size(); ++i)
    if (type.dims[i].name == dim) return i - jagged;
  throw ContractError("no dim of the array is called " + dim);
}

namespace {

std::vector<int> peers(const Mesh& mesh, int rank, Atom atom) { return mesh.group(rank, std::span(&atom, 1)); }

PerRank join_chunks(const Mesh& mesh, const PerRank& local, size_t dim, Atom atom) {
  PerRank joined;
  for (int r = 0; r < mesh.ranks(); ++r) {
    std::vector<const Array*> parts;
    for (int q : peers(mesh, r, atom)) parts.push_back(&local[q]);
    joined.push_back(concat(parts, dim));
  }
  return joined;
}

}  // namespace

PerRank spread(const Mesh& mesh, const Type& type, const Array& global) {
  PerRank local;
  for (int r = 0; r < mesh.ranks(); ++r) {
    Array x = global;
    for (size_t d = 0; d < type.dims.size(); ++d)
      for (const Mark& mark : type.dims[d].stack) x = chunk(x, d, mesh.size(mark.atom), mesh.digit(r, mark.atom));
    local.push_back(std::move(x));
  }
  return local;
}

void expect_agreement(const Mesh& mesh, const Type& type, const PerRank& local, Agreement agreement) {
  for (Atom a = 0; a < mesh.num_atoms(); ++a) {
    const Hold hold = type.place(a).hold;
    if (hold != Hold::I && hold != Hold::R) continue;
    for (int r = 0; r < mesh.ranks(); ++r) {
      const Array& first = local[peers(mesh, r, a).front()];
      if (local[r] == first || (agreement == Agreement::close && max_difference(local[r], first) < 1e-9)) continue;
      throw Disagreement(
          fmt::format("ranks {} and {} hold different values over {}", r, peers(mesh, r, a).front(), mesh.name(a)));
    }
  }
}

Array collect(const Mesh& mesh, const Type& type, PerRank local, Agreement agreement) {
  expects(type.jagged_index() < 0, "collect: the value has no jagged dim");
  expect_agreement(mesh, type, local, agreement);
  for (Atom a = 0; a < mesh.num_atoms(); ++a) {
    if (type.holds[a] != Hold::P) continue;
    PerRank sums;
    for (int r = 0; r < mesh.ranks(); ++r) {
      Array sum(local[r].shape);
      for (int q : peers(mesh, r, a)) add_to(sum, local[q]);
      sums.push_back(std::move(sum));
    }
    local = std::move(sums);
  }
  for (size_t d = 0; d < type.dims.size(); ++d) {
    const auto& stack = type.dims[d].stack;
    for (auto mark = stack.rbegin(); mark != stack.rend(); ++mark)
      if (mark->is_atom()) local = join_chunks(mesh, local, d, mark->atom);
  }
  return local.front();
}

std::vector<int64_t> cells(const Mesh& mesh, const std::vector<Dim>& prefix, int rank) {
  std::vector<int64_t> ids = {0};
  for (const Dim& dim : prefix) {
    const Range range = local_range(mesh, dim, rank);
    std::vector<int64_t> finer;
    for (int64_t id : ids)
      for (int64_t i = range.first; i < range.first + range.size; ++i) finer.push_back(id * dim.size + i);
    ids = std::move(finer);
  }
  return ids;
}

}  // namespace plait::oracle
