#include "plan/scratch.h"

#include "schedule/wire_bytes.h"

namespace plait {
namespace {

// One side of a message: the runs of each member's part, in rows or elements.
struct Side {
  int64_t total = 0;
  bool in_order = true;  // the parts lie one behind the other, and are all there is

  void add(const std::vector<Rows>& runs) {
    in_order = in_order && (runs.empty() || (runs.size() == 1 && runs[0].first == total));
    total += count(runs);
  }
  void end(int64_t whole) { in_order = in_order && total == whole; }
};

// What a rank sends and gets of one value, in elements.
struct Parcel {
  Side send, receive;
  int64_t before = 0, after = 0;  // elements of the value on this rank
};

Parcel dense_parcel(const Common& common) {
  Parcel p{.before = volume(common.from), .after = volume(common.to)};
  for (const Box& box : common.send) p.send.add(runs_of(box, common.from));
  for (const Box& box : common.receive) p.receive.add(runs_of(box, common.to));
  return p;
}

Parcel row_parcel(const Common& common, const CellRows& before, const CellRows& after, int64_t width) {
  Parcel p{.before = before.total(), .after = after.total()};
  for (const Box& box : common.send) p.send.add(before.of(box));
  for (const Box& box : common.receive) p.receive.add(after.of(box));
  p.send.end(p.before);
  p.receive.end(p.after);
  for (int64_t* n : {&p.send.total, &p.receive.total, &p.before, &p.after}) *n *= width;
  return p;
}

Parcel parcel(const StepOnRank& at, const std::vector<int>& members, size_t value) {
  const Type &from = at.types[at.step.in[value]], &to = at.types[at.step.out[value]];
  if (from.jagged_index() < 0) {
    Parcel p = dense_parcel(common_boxes(at.mesh, at.rank, {from.dims, to.dims}, members));
    p.send.end(p.before);
    p.receive.end(p.after);
    return p;
  }
  const std::vector<Dim> before = from.prefix(), after = to.prefix();
  const Common common = common_boxes(at.mesh, at.rank, {before, after}, members);
  return row_parcel(common, CellRows(common.from, at.rows.cells(from).data()),
                    CellRows(common.to, at.rows.cells(to).data()), row_elements(at.mesh, from));
}

int64_t alone(Collective kind, const Parcel& p) {
  const bool sends = kind != Collective::all_gather && !p.send.in_order;
  const bool receives = kind != Collective::reduce_scatter && !p.receive.in_order;
  return (sends ? p.send.total : 0) + (receives ? p.receive.total : 0);
}

// A gather packs what it has, a scatter unpacks its own part.
int64_t beside_others(Collective kind, const Parcel& p) {
  return (kind == Collective::all_gather ? p.before : p.send.total) +
         (kind == Collective::reduce_scatter ? p.after : p.receive.total);
}

}  // namespace

int64_t scratch_bytes(const StepOnRank& at) {
  const Move* move = as<Move>(at.step.op);
  if (!move) return traits_of(at.step.op).scratch({at.mesh, at.types, at.step});
  const Collective kind = collective(move->legs);
  if (kind == Collective::none || kind == Collective::all_reduce) return 0;
  const std::vector<int> members = at.mesh.group(at.rank, wire_atoms(move->legs));
  const size_t values = at.step.out.size();
  int64_t bytes = 0;
  for (size_t i = 0; i < values; ++i) {
    const Parcel p = parcel(at, members, i);
    bytes += (values == 1 ? alone(kind, p) : beside_others(kind, p)) * at.item[at.step.in[i]];
  }
  return bytes;
}

}  // namespace plait
