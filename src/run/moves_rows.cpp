// Moves of ragged rows: rank r sends rank q the rows of the cells that r holds and q will hold. The sender uses only
// its own table, the receiver only its own; both keep rows in lexicographic order of their cells.
#include "run/moves_rows.h"

#include "base/errors.h"
#include "run/boxes.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

struct Plan {
  Box from, to;                    // this rank's cells before and after
  std::vector<Box> send, receive;  // by member: cells of mine that it will hold; of its that I will hold
};

Plan plan(const StepTypes& types, const std::vector<int>& members) {
  const std::vector<Dim> from = types.in[0]->prefix(), to = types.out[0]->prefix();
  Plan p{box_of(types.mesh, from, types.rank), box_of(types.mesh, to, types.rank), {}, {}};
  for (int member : members) {
    p.send.push_back(intersect(p.from, box_of(types.mesh, to, member)));
    p.receive.push_back(intersect(box_of(types.mesh, from, member), p.to));
  }
  return p;
}

// The rows of each member's part, and whether the parts follow each other without a gap.
struct Side {
  std::vector<std::vector<Rows>> parts;
  std::vector<int64_t> counts;
  int64_t total = 0;
  bool in_order = true;
};

Side side(const CellRows& cells, const std::vector<Box>& boxes) {
  Side s;
  for (const Box& box : boxes) {
    s.parts.push_back(cells.of(box));
    s.counts.push_back(count(s.parts.back()));
    const auto& rows = s.parts.back();
    s.in_order = s.in_order && (rows.empty() || (rows.size() == 1 && rows[0].first == s.total));
    s.total += s.counts.back();
  }
  s.in_order = s.in_order && s.total == cells.total();
  return s;
}

at::Tensor rows_like(const at::Tensor& x, int64_t rows,
                     const std::function<at::Tensor(at::IntArrayRef, at::ScalarType)>& make) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[0] = rows;
  return make(shape, x.scalar_type());
}

// Copies each part of x behind the other.
at::Tensor packed(Call& call, const at::Tensor& x, const Side& send) {
  if (send.in_order) return x;
  const at::Tensor buffer =
      rows_like(x, send.total, [&](at::IntArrayRef s, at::ScalarType t) { return call.scratch(s, t); });
  int64_t at = 0;
  for (const auto& part : send.parts) {
    for (const Rows& r : part) {
      buffer.narrow(0, at, r.count).copy_(x.narrow(0, r.first, r.count));
      at += r.count;
    }
  }
  return buffer;
}

enum class Into { copy, add };

void unpack(const at::Tensor& buffer, const Side& receive, const at::Tensor& out, Into into) {
  if (into == Into::add) out.zero_();
  int64_t at = 0;
  for (const auto& part : receive.parts) {
    for (const Rows& r : part) {
      const at::Tensor to = out.narrow(0, r.first, r.count), from = buffer.narrow(0, at, r.count);
      into == Into::add ? to.add_(from) : to.copy_(from);
      at += r.count;
    }
  }
}

// One move in progress.
struct Rowing {
  Call& call;
  const Plan& plan;
  CellRows before, after;

  Rowing(Call& c, const Plan& p)
      : call(c),
        plan(p),
        before(p.from, c.in(1).const_data_ptr<int64_t>()),
        after(p.to, c.in(2).const_data_ptr<int64_t>()) {
    expects(before.total() == c.in(0).size(0), "rows and their table differ");
  }

  at::Tensor make() {
    return rows_like(call.in(0), after.total(),
                     [&](at::IntArrayRef s, at::ScalarType t) { return call.make(0, s, t); });
  }
  at::Tensor scratch(int64_t rows) {
    return rows_like(call.in(0), rows, [&](at::IntArrayRef s, at::ScalarType t) { return call.scratch(s, t); });
  }

  void slice() {
    const Side kept = side(before, {plan.to});
    if (kept.parts[0].empty()) return void(make());
    if (kept.parts[0].size() == 1)
      return call.alias(0, 0, call.in(0).narrow(0, kept.parts[0][0].first, kept.parts[0][0].count));
    const at::Tensor out = make();
    int64_t at = 0;
    for (const Rows& r : kept.parts[0]) {
      out.narrow(0, at, r.count).copy_(call.in(0).narrow(0, r.first, r.count));
      at += r.count;
    }
  }

  void pad() {
    const at::Tensor out = make();
    out.zero_();
    const Side own = side(after, {plan.from});
    int64_t at = 0;
    for (const Rows& r : own.parts[0]) {
      out.narrow(0, r.first, r.count).copy_(call.in(0).narrow(0, at, r.count));
      at += r.count;
    }
  }

  void gather(wire::Group& group) {
    const Side receive = side(after, plan.receive);
    const at::Tensor out = make();
    if (receive.in_order) return group.all_gather_rows(call.in(0), out, receive.counts);
    const at::Tensor buffer = scratch(receive.total);
    group.all_gather_rows(call.in(0), buffer, receive.counts);
    unpack(buffer, receive, out, Into::copy);
  }

  void scatter(wire::Group& group) {
    const Side send = side(before, plan.send);
    const at::Tensor in = packed(call, call.in(0), send);
    group.reduce_scatter_rows(in, make(), send.counts);
  }

  void exchange(wire::Group& group) {
    const Side send = side(before, plan.send), receive = side(after, plan.receive);
    const at::Tensor in = packed(call, call.in(0), send), out = make();
    if (receive.in_order) return group.all_to_all(in, out, send.counts, receive.counts);
    const at::Tensor buffer = scratch(receive.total);
    group.all_to_all(in, buffer, send.counts, receive.counts);
    unpack(buffer, receive, out, receive.total == after.total() ? Into::copy : Into::add);
  }
};

}  // namespace

Kernel prepare_row_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group) {
  const Collective kind = collective(move.legs);
  const bool pads = kinds(move.legs).front() == MoveKind::pad;
  const std::vector<int> members = group ? types.mesh.group(types.rank, wire_atoms(move.legs)) : std::vector<int>{};
  return [kind, pads, group, p = plan(types, members)](Call& call) {
    Rowing rows(call, p);
    if (kind == Collective::none)
      pads ? rows.pad() : rows.slice();
    else if (kind == Collective::all_gather)
      rows.gather(*group);
    else if (kind == Collective::reduce_scatter)
      rows.scatter(*group);
    else
      rows.exchange(*group);
  };
}

}  // namespace plait
