#include "train/parameters.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "base/errors.h"
#include "base/random.h"
#include "run/boxes.h"
#include "schedule/builder.h"

namespace plait {
namespace {

std::vector<int64_t> global_shape(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.dims) shape.push_back(dim.size);
  return shape;
}

// The global flat index of the first element of each local row (the last dim is one run).
template <class F>
void each_run(const Box& box, const std::vector<int64_t>& shape, F run) {
  const size_t rank = box.size();
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < rank; ++d) rows *= box[d].size;
  at::parallel_for(0, rows, 64, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      int64_t left = r, index = 0, stride = shape.back();
      for (size_t d = rank - 1; d-- > 0;) {
        index += (box[d].first + left % box[d].size) * stride;
        left /= box[d].size;
        stride *= shape[d];
      }
      run(r, index + box.back().first);
    }
  });
}

template <class T>
void fill_normal(const at::Tensor& part, const Box& box, const std::vector<int64_t>& shape,
                 std::pair<uint64_t, double> draw) {
  T* out = part.data_ptr<T>();
  const int64_t width = box.back().size;
  each_run(box, shape, [&](int64_t row, int64_t index) {
    for (int64_t i = 0; i < width; ++i)
      out[row * width + i] = static_cast<T>(draw.second * normal(draw.first, static_cast<uint64_t>(index + i)));
  });
}

}  // namespace

at::Tensor initial_part(const Parameter& parameter, const Type& type, uint64_t seed, const StepTypes& where) {
  const auto shape = local_shape(where.mesh, type);
  if (parameter.init_std == 0) return at::ones(shape, where.dtype);
  const at::Tensor part = at::empty(shape, where.dtype);
  const Box box = box_of(where.mesh, type.dims, where.rank);
  const std::pair<uint64_t, double> draw{random_key(seed, parameter.name), parameter.init_std};
  if (where.dtype == at::kDouble)
    fill_normal<double>(part, box, global_shape(type), draw);
  else
    fill_normal<float>(part, box, global_shape(type), draw);
  return part;
}

at::Tensor part_of(const at::Tensor& whole, const Type& type, const StepTypes& where) {
  at::Tensor part = whole;
  const Box box = box_of(where.mesh, type.dims, where.rank);
  for (size_t d = 0; d < box.size(); ++d) part = part.narrow(static_cast<int64_t>(d), box[d].first, box[d].size);
  return part.to(where.dtype).clone(at::MemoryFormat::Contiguous);
}

namespace {

Schedule join_schedule(const Mesh& mesh, const std::string& name, const Type& type) {
  Builder b(mesh);
  const ValueId leaf = b.leaf(LeafKind::parameter, name, type);
  Legs legs;
  for (Atom a : mesh.atoms())
    if (const Place place = type.place(a); place.hold == Hold::S) legs.push_back({a, place, {Hold::I}});
  b.schedule().outputs = {b.move(leaf, legs)};
  return b.take();
}

}  // namespace

Joiner::Joiner(const Schedule& schedule, RankContext context) {
  for (const Leaf& leaf : schedule.leaves) {
    if (leaf.kind != LeafKind::parameter && leaf.kind != LeafKind::state) continue;
    const std::string& name = schedule.names[leaf.value];
    joins_.emplace(std::piecewise_construct, std::forward_as_tuple(name),
                   std::forward_as_tuple(join_schedule(schedule.mesh, name, leaf.type), context));
  }
}

at::Tensor Joiner::whole(const std::string& leaf, const at::Tensor& part) {
  Executor& join = joins_.at(leaf);
  join.bind(leaf, part);
  join.run([](const std::string&, int) { return at::Tensor(); });
  return join.value(join.schedule().outputs[0]);
}

}  // namespace plait
