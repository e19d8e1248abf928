// Moves of ragged rows: rank r sends rank q the rows of the cells that r holds and q will hold. The sender uses only
// its own table, the receiver only its own; both keep rows in lexicographic order of their cells.
#include "run/moves_rows.h"

#include "base/errors.h"
#include "schedule/boxes.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

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

// One value's move in progress.
struct Rowing {
  Call& call;
  size_t value;
  const Common& plan;
  CellRows before, after;

  Rowing(Call& c, size_t i, size_t values, const Common& p)
      : call(c), value(i), plan(p), before(cells_before(c, i, values, p)), after(cells_after(c, i, values, p)) {}

  at::Tensor make() {
    return rows_like(call.in(value), after.total(),
                     [&](at::IntArrayRef s, at::ScalarType t) { return call.make(value, s, t); });
  }
  at::Tensor scratch(int64_t rows) {
    return rows_like(call.in(value), rows, [&](at::IntArrayRef s, at::ScalarType t) { return call.scratch(s, t); });
  }

  void slice() {
    const Side kept = side(before, {plan.to});
    if (kept.parts[0].empty()) return void(make());
    if (kept.parts[0].size() == 1)
      return call.alias(value, value, call.in(value).narrow(0, kept.parts[0][0].first, kept.parts[0][0].count));
    const at::Tensor out = make();
    int64_t at = 0;
    for (const Rows& r : kept.parts[0]) {
      out.narrow(0, at, r.count).copy_(call.in(value).narrow(0, r.first, r.count));
      at += r.count;
    }
  }

  void pad() {
    const at::Tensor out = make();
    out.zero_();
    const Side own = side(after, {plan.from});
    int64_t at = 0;
    for (const Rows& r : own.parts[0]) {
      out.narrow(0, r.first, r.count).copy_(call.in(value).narrow(0, at, r.count));
      at += r.count;
    }
  }

  void gather(wire::Group& group) {
    const Side receive = side(after, plan.receive);
    const at::Tensor out = make();
    if (receive.in_order) return group.all_gather_rows(call.in(value), out, receive.counts);
    const at::Tensor buffer = scratch(receive.total);
    group.all_gather_rows(call.in(value), buffer, receive.counts);
    unpack(buffer, receive, out, Into::copy);
  }

  void scatter(wire::Group& group) {
    const Side send = side(before, plan.send);
    const at::Tensor in = packed(call, call.in(value), send);
    group.reduce_scatter_rows(in, make(), send.counts);
  }

  void exchange(wire::Group& group) {
    const Side send = side(before, plan.send), receive = side(after, plan.receive);
    const at::Tensor in = packed(call, call.in(value), send), out = make();
    if (receive.in_order) return group.all_to_all(in, out, send.counts, receive.counts);
    const at::Tensor buffer = scratch(receive.total);
    group.all_to_all(in, buffer, send.counts, receive.counts);
    unpack(buffer, receive, out, receive.total == after.total() ? Into::copy : Into::add);
  }
};

}  // namespace

Common common_cells(const StepTypes& types, size_t value, const std::vector<int>& members) {
  return common_boxes(types.mesh, types.rank, {types.in[value]->prefix(), types.out[value]->prefix()}, members);
}

CellRows cells_before(const Call& call, size_t value, size_t values, const Common& cells) {
  CellRows rows(cells.from, call.in(values + 2 * value).const_data_ptr<int64_t>());
  expects(rows.total() == call.in(value).size(0), "rows and their table differ");
  return rows;
}

CellRows cells_after(const Call& call, size_t value, size_t values, const Common& cells) {
  return CellRows(cells.to, call.in(values + 2 * value + 1).const_data_ptr<int64_t>());
}

Kernel prepare_row_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group) {
  const Collective kind = collective(move.legs);
  const bool pads = kinds(move.legs).front() == MoveKind::pad;
  const std::vector<int> members = group ? types.mesh.group(types.rank, wire_atoms(move.legs)) : std::vector<int>{};
  std::vector<Common> plans;
  for (size_t i = 0; i < types.out.size(); ++i) plans.push_back(common_cells(types, i, members));
  expects(kind == Collective::none || plans.size() == 1, "several values travel in one message");
  return [kind, pads, group, plans = std::move(plans)](Call& call) {
    for (size_t i = 0; i < plans.size(); ++i) {
      Rowing rows(call, i, plans.size(), plans[i]);
      if (kind == Collective::none)
        pads ? rows.pad() : rows.slice();
      else if (kind == Collective::all_gather)
        rows.gather(*group);
      else if (kind == Collective::reduce_scatter)
        rows.scatter(*group);
      else
        rows.exchange(*group);
    }
  };
}

}  // namespace plait
