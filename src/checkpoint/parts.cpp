#include "checkpoint/parts.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/errors.h"
#include "base/random.h"
#include "schedule/boxes.h"
#include "schedule/builder.h"

namespace plait {
namespace {

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

// This rank's share of what it holds with the parameter's own dims, where the leaf packs them.
at::Tensor share_of(const at::Tensor& part, const Stored& stored, const StepTypes& where) {
  if (stored.leaf.dims == stored.dims) return part;
  const Range share = local_range(where.mesh, stored.leaf.dims.front(), where.rank);
  int64_t packed = stored.leaf.dims.front().size;
  for (const Dim& dim : stored.dims)
    for (const Mark& mark : dim.stack) packed /= where.mesh.size(mark.atom);
  const int64_t first = std::min(share.first % packed, part.numel());
  const at::Tensor own = part.reshape({-1}).slice(0, first, std::min(first + share.size, part.numel()));
  at::Tensor out = at::zeros({share.size}, part.options());
  out.narrow(0, 0, own.numel()).copy_(own);
  return out;
}

Type type_with(const Mesh& mesh, const std::vector<Dim>& dims) {
  Type type{.dims = dims, .holds = std::vector<Hold>(mesh.num_atoms(), Hold::I)};
  for (const Dim& dim : dims)
    for (const Mark& mark : dim.stack) type.holds[mark.atom] = Hold::S;
  return type;
}

}  // namespace

std::map<std::string, Stored> stored(const TrainingStep& step) {
  const Schedule& s = step.schedule;
  std::map<std::string, Stored> all;
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
      all[s.names[leaf.value]] = {leaf.type.dims, leaf.type};
  for (const Parameter& p : step.parameters) all.at(p.name).dims = p.dims;
  for (const Step& update : s.steps)
    if (as<AdamW>(update.op))
      for (int moment : {2, 3}) all.at(s.names[update.in[moment]]).dims = all.at(s.names[update.in[0]]).dims;
  return all;
}

std::vector<int64_t> whole_shape(const Stored& stored) {
  std::vector<int64_t> shape;
  for (const Dim& dim : stored.dims) shape.push_back(dim.size);
  return shape;
}

at::Tensor initial_part(const Parameter& parameter, const Stored& stored, uint64_t seed, const StepTypes& where) {
  const auto shape = local_shape(where.mesh, type_with(where.mesh, stored.dims));
  const auto* drawn = std::get_if<Normal>(&parameter.init);
  if (!drawn) {
    const bool ones = std::holds_alternative<Ones>(parameter.init);
    return share_of(ones ? at::ones(shape, where.dtype) : at::zeros(shape, where.dtype), stored, where);
  }
  const at::Tensor part = at::empty(shape, where.dtype);
  const Box box = box_of(where.mesh, stored.dims, where.rank);
  const std::pair<uint64_t, double> draw{random_key(seed, parameter.name), drawn->deviation};
  if (where.dtype == at::kDouble)
    fill_normal<double>(part, box, whole_shape(stored), draw);
  else
    fill_normal<float>(part, box, whole_shape(stored), draw);
  return share_of(part, stored, where);
}

at::Tensor part_of(const at::Tensor& whole, const Stored& stored, const StepTypes& where) {
  at::Tensor part = whole;
  const Box box = box_of(where.mesh, stored.dims, where.rank);
  for (size_t d = 0; d < box.size(); ++d) part = part.narrow(static_cast<int64_t>(d), box[d].first, box[d].size);
  return share_of(part.to(where.dtype), stored, where).clone(at::MemoryFormat::Contiguous);
}

at::Tensor part_of(const at::Tensor& whole, const Type& type, const StepTypes& where) {
  return part_of(whole, Stored{type.dims, type}, where);
}

namespace {

ValueId join(Builder& b, ValueId x, const std::vector<Dim>& until) {
  const Type& type = b.type(x);
  const Type whole = type_with(b.mesh(), until);
  Legs legs;
  for (Atom a : b.mesh().atoms())
    if (type.holds[a] == Hold::S && whole.holds[a] != Hold::S) legs.push_back({a, type.place(a), {Hold::I}});
  return b.move(x, legs);
}

Schedule join_schedule(const Mesh& mesh, const std::string& name, const Stored& stored) {
  Builder b(mesh);
  ValueId x = b.leaf(LeafKind::parameter, name, stored.leaf);
  if (stored.leaf.dims != stored.dims) x = b.add(Unpack{stored.dims}, {join(b, x, stored.dims)});
  b.schedule().outputs = {join(b, x, {})};
  return b.take();
}

}  // namespace

Joiner::Joiner(const TrainingStep& step, RankContext context) {
  for (const auto& [name, how] : stored(step))
    joins_.emplace(std::piecewise_construct, std::forward_as_tuple(name),
                   std::forward_as_tuple(join_schedule(step.schedule.mesh, name, how), context));
}

at::Tensor Joiner::whole(const std::string& leaf, const at::Tensor& part) {
  Executor& join = joins_.at(leaf);
  join.bind(leaf, part);
  join.run([](const std::string&, int) { return at::Tensor(); });
  return join.value(join.schedule().outputs[0]);
}

}  // namespace plait
