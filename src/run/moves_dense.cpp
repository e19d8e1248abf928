// Moves of values of fixed size: rank r sends rank q the box that r holds and q will hold. Worked out once.
#include "run/moves_dense.h"

#include <ATen/ops/zeros.h>

#include <optional>

#include "base/errors.h"
#include "schedule/boxes.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// A part of a local tensor: per dim the first local index and the size.
using Part = Box;

Part local_part(const Box& part, const Box& local) {
  Part p = part;
  for (size_t d = 0; d < p.size(); ++d) p[d].first -= local[d].first;
  return p;
}

std::vector<int64_t> sizes(const Box& box) {
  std::vector<int64_t> n;
  for (const Range& r : box) n.push_back(r.size);
  return n;
}

at::Tensor view(at::Tensor x, const Part& part) {
  for (size_t d = 0; d < part.size(); ++d) x = x.narrow(static_cast<int64_t>(d), part[d].first, part[d].size);
  return x;
}

// Where a part begins in its tensor when it is contiguous there.
std::optional<int64_t> contiguous_at(const Part& part, const std::vector<int64_t>& shape) {
  int64_t offset = 0, stride = 1;
  bool whole = true;  // all dims right of d are whole
  for (int d = static_cast<int>(part.size()) - 1; d >= 0; --d) {
    if (!whole && part[d].size != 1) return std::nullopt;
    offset += part[d].first * stride;
    stride *= shape[d];
    whole = whole && part[d].size == shape[d];
  }
  return offset;
}

// The parts of one side of a message, by member of the group.
struct Side {
  std::vector<Part> parts;
  std::vector<int64_t> counts;  // elements
  bool in_order = true;         // the parts are contiguous, one after another, and are the whole tensor
};

Side side(const std::vector<Box>& common, const Box& local) {
  Side s;
  int64_t at = 0;
  for (const Box& box : common) {
    s.parts.push_back(local_part(box, local));
    s.counts.push_back(volume(box));
    const auto offset = contiguous_at(s.parts.back(), sizes(local));
    s.in_order = s.in_order && offset && *offset == at;
    at += s.counts.back();
  }
  s.in_order = s.in_order && at == volume(local);
  return s;
}

struct Plan {
  Box from, to;  // what this rank holds before and after
  Side send, receive;
  std::vector<int64_t> shape;  // of the result
};

Plan plan(const StepTypes& types, size_t value, const std::vector<int>& members) {
  const Type &from = *types.in[value], &to = *types.out[value];
  const Common c = common_boxes(types.mesh, types.rank, {from.dims, to.dims}, members);
  return {c.from, c.to, side(c.send, c.from), side(c.receive, c.to), types.shape(to)};
}

at::Tensor packed(Call& call, const at::Tensor& x, const Side& send) {
  if (send.in_order) return x.view({-1});
  int64_t total = 0;
  for (int64_t n : send.counts) total += n;
  at::Tensor buffer = call.scratch({total}, x.scalar_type());
  int64_t at = 0;
  for (size_t m = 0; m < send.parts.size(); ++m) {
    buffer.narrow(0, at, send.counts[m]).view(sizes(send.parts[m])).copy_(view(x, send.parts[m]));
    at += send.counts[m];
  }
  return buffer;
}

void unpack(const at::Tensor& buffer, const Side& receive, const at::Tensor& out) {
  int64_t at = 0;
  for (size_t m = 0; m < receive.parts.size(); ++m) {
    view(out, receive.parts[m]).copy_(buffer.narrow(0, at, receive.counts[m]).view(sizes(receive.parts[m])));
    at += receive.counts[m];
  }
}

void add_parts(const at::Tensor& buffer, const Side& receive, const at::Tensor& out) {
  out.zero_();
  int64_t at = 0;
  for (size_t m = 0; m < receive.parts.size(); ++m) {
    view(out, receive.parts[m]).add_(buffer.narrow(0, at, receive.counts[m]).view(sizes(receive.parts[m])));
    at += receive.counts[m];
  }
}

void slice(Call& call, size_t i, const Plan& p) {
  const at::Tensor part = view(call.in(i), local_part(p.to, p.from));
  if (part.is_contiguous()) return call.alias(i, i, part);
  call.make(i, p.shape, part.scalar_type()).copy_(part);
}

void pad(Call& call, size_t i, const Plan& p) {
  const at::Tensor out = call.make(i, p.shape, call.in(i).scalar_type());
  out.zero_();
  view(out, local_part(p.from, p.to)).copy_(call.in(i));
}

void gather(Call& call, size_t i, const Plan& p, wire::Group& group) {
  const at::Tensor& x = call.in(i);
  const at::Tensor out = call.make(i, p.shape, x.scalar_type());
  if (p.receive.in_order) return group.all_gather(x, out);
  const at::Tensor buffer = call.scratch({out.numel()}, x.scalar_type());
  group.all_gather(x, buffer);
  unpack(buffer, p.receive, out);
}

void scatter(Call& call, size_t i, const Plan& p, wire::Group& group) {
  const at::Tensor out = call.make(i, p.shape, call.in(i).scalar_type());
  group.reduce_scatter(packed(call, call.in(i), p.send), out);
}

void exchange(Call& call, size_t i, const Plan& p, wire::Group& group) {
  const at::Tensor& x = call.in(i);
  const at::Tensor send = packed(call, x, p.send);
  const at::Tensor out = call.make(i, p.shape, x.scalar_type());
  if (p.receive.in_order) return group.all_to_all(send, out.view({-1}), p.send.counts, p.receive.counts);
  int64_t total = 0;
  for (int64_t n : p.receive.counts) total += n;
  const at::Tensor buffer = call.scratch({total}, x.scalar_type());
  group.all_to_all(send, buffer, p.send.counts, p.receive.counts);
  total == out.numel() ? unpack(buffer, p.receive, out) : add_parts(buffer, p.receive, out);
}

}  // namespace

Kernel prepare_dense_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group) {
  const Collective kind = collective(move.legs);
  const bool pads = kinds(move.legs).front() == MoveKind::pad;
  const std::vector<int> members = group ? types.mesh.group(types.rank, wire_atoms(move.legs)) : std::vector<int>{};
  std::vector<Plan> plans;
  for (size_t i = 0; i < types.in.size(); ++i) {
    expects(types.in[i]->jagged_index() < 0, "rows without tables cannot move: lower the schedule");
    plans.push_back(plan(types, i, members));
  }
  expects(kind == Collective::none || plans.size() == 1, "several values travel in one message");
  return [kind, pads, group, plans = std::move(plans)](Call& call) {
    if (kind == Collective::all_gather) return gather(call, 0, plans[0], *group);
    if (kind == Collective::reduce_scatter) return scatter(call, 0, plans[0], *group);
    if (kind == Collective::all_to_all) return exchange(call, 0, plans[0], *group);
    for (size_t i = 0; i < plans.size(); ++i) pads ? pad(call, i, plans[i]) : slice(call, i, plans[i]);
  };
}

}  // namespace plait
