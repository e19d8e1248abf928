#include "schedule/message_plan.h"

#include "schedule/wire_bytes.h"

namespace plait {
namespace {

Side side(std::vector<std::vector<Pieces>> parts, int64_t whole) {
  Side s{.parts = std::move(parts)};
  for (const std::vector<Pieces>& runs : s.parts) {
    const bool next = runs.size() == 1 && runs[0].times == 1 && runs[0].first == s.total;
    s.in_order = s.in_order && (runs.empty() || next);
    s.counts.push_back(count(runs));
    s.total += s.counts.back();
  }
  s.in_order = s.in_order && s.total == whole;
  return s;
}

Side whole(int64_t count) { return side({{{0, count}}}, count); }

template <class Runs>
Side by_member(const std::vector<Box>& boxes, int64_t whole, Runs runs) {
  std::vector<std::vector<Pieces>> parts;
  for (const Box& box : boxes) parts.push_back(runs(box));
  return side(std::move(parts), whole);
}

// before(box), after(box): the runs of a box in what the rank holds.
template <class Before, class After>
Parcel parcel(const MessagePlan& plan, Parcel p, const Common& boxes, Before before, After after) {
  const bool gathers = plan.collective == Collective::all_gather,
             scatters = plan.collective == Collective::reduce_scatter;
  p.send = gathers ? whole(p.before) : by_member(boxes.send, p.before, before);
  p.receive = scatters ? whole(p.after) : by_member(boxes.receive, p.after, after);
  return p;
}

Parcel fixed_parcel(const MessagePlan& plan, const Common& boxes) {
  return parcel(
      plan, {.before = volume(boxes.from), .after = volume(boxes.to)}, boxes,
      [&](const Box& box) { return runs_of(box, boxes.from); }, [&](const Box& box) { return runs_of(box, boxes.to); });
}

Parcel row_parcel(const MessagePlan& plan, const Common& boxes, const CellCounts& table) {
  const CellRows before(boxes.from, table.before), after(boxes.to, table.after);
  return parcel(
      plan, {.before = before.total(), .after = after.total()}, boxes, [&](const Box& box) { return before.of(box); },
      [&](const Box& box) { return after.of(box); });
}

Cut cut(const MoveOnRank& move, const std::vector<int>& members, size_t value) {
  const Type &from = *move.in[value], &to = *move.out[value];
  const bool rows = from.jagged_index() >= 0;
  const std::vector<Dim> before = rows ? from.prefix() : from.dims, after = rows ? to.prefix() : to.dims;
  return {.boxes = common_boxes(move.mesh, move.rank, {before, after}, members),
          .rows = rows,
          .width = rows ? row_elements(move.mesh, from) : 1};
}

}  // namespace

MessagePlan message_plan(const MoveOnRank& move) {
  MessagePlan plan{.collective = collective(move.legs), .atoms = wire_atoms(move.legs), .members = {move.rank}};
  if (plan.collective != Collective::none) plan.members = move.mesh.group(move.rank, plan.atoms);
  if (plan.collective == Collective::all_reduce) return plan;
  for (size_t i = 0; i < move.out.size(); ++i) plan.cuts.push_back(cut(move, plan.members, i));
  return plan;
}

std::vector<Parcel> parcels(const MessagePlan& plan, std::span<const CellCounts> tables) {
  std::vector<Parcel> all;
  for (size_t i = 0; i < plan.cuts.size(); ++i) {
    const Cut& cut = plan.cuts[i];
    all.push_back(cut.rows ? row_parcel(plan, cut.boxes, tables[i]) : fixed_parcel(plan, cut.boxes));
  }
  return all;
}

bool direct(std::span<const Parcel> message, Side Parcel::*side) {
  return message.size() == 1 && (message[0].*side).in_order;
}

int64_t buffer_bytes(const MessagePlan& plan, std::span<const Parcel> message, std::span<const int64_t> item) {
  int64_t bytes = 0;
  if (plan.collective == Collective::none) return bytes;
  for (Side Parcel::*side : {&Parcel::send, &Parcel::receive})
    for (size_t i = 0; i < message.size() && !direct(message, side); ++i)
      bytes += (message[i].*side).total * plan.cuts[i].width * item[i];
  return bytes;
}

}  // namespace plait
