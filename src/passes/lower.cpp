#include "passes/lower.h"

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "base/stop.h"
#include "schedule/builder.h"
#include "schedule/typing.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

bool shares(const std::vector<std::string>& labels, const std::vector<Dim>& dims) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const Dim& d) { return std::find(labels.begin(), labels.end(), d.name) != labels.end(); });
}

// Whether a product depends on which cell a row is in: its weights differ by cell, or its sums do.
bool groups_rows(const Einsum& einsum, const std::vector<const Type*>& in, const Type& rows) {
  const std::vector<Dim> prefix = rows.prefix();
  for (const Type* t : in)
    if (t->jagged_index() < 0 && shares(names(prefix), t->dims)) return true;
  const std::string& jagged = rows.dims[rows.jagged_index()].name;
  const bool summed = std::find(einsum.out.begin(), einsum.out.end(), jagged) == einsum.out.end();
  return summed && shares(einsum.out, prefix);
}

// Whether a bias, or its gradient, is that of each row's expert.
bool reads_cells(const Step& step, const std::vector<const Type*>& in) {
  if (as<AddBias>(step.op)) return bias_of_experts(*in[0], in[1]->dim_names());
  const BiasGrad* grad = as<BiasGrad>(step.op);
  return grad && bias_of_experts(*in[0], grad->dims);
}

// A way from one layout of a table to another: a message, then slices.
struct Relayout {
  double bytes = 0;
  std::vector<Legs> moves;
};

class Lowering {
 public:
  explicit Lowering(const Schedule& source)
      : source_(source), all_types_(check(source)), s_(source), types_(all_types_) {
    s_.steps.clear();
  }

  Schedule run() {
    for (const Leaf& leaf : source_.leaves)
      if (leaf.type.role == Role::table) have_.push_back(leaf.value);
    for (size_t i = 0; i < source_.steps.size(); ++i) step(static_cast<int>(i));
    s_.steps.clear();
    std::vector<int> first_with(source_.steps.size() + 1, -1);
    for (const Placed& p : out_) {
      for (int i = p.source; i >= 0 && first_with[i] < 0; --i) first_with[i] = static_cast<int>(s_.steps.size());
      s_.steps.push_back(p.step);
    }
    if (s_.repeat) {
      first_with.back() = static_cast<int>(s_.steps.size());
      s_.repeat->first = first_with[source_.repeat->first];
      s_.repeat->last = first_with[source_.repeat->last];
    }
    check(s_);
    return std::move(s_);
  }

 private:
  struct Placed {
    Step step;
    int source;  // index in the source list that it belongs to
  };

  void step(int index) {
    Step step = source_.steps[index];
    for (ValueId table : tables_for(step)) step.in.push_back(table);
    out_.push_back({step, index});
    if (!as<Count>(step.op) && !as<CountWithin>(step.op)) return;
    have_.push_back(step.out[0]);
    prepare(all_types_[step.out[0]].routing);
  }

  std::vector<ValueId> tables_for(const Step& step) {
    std::vector<const Type*> in;
    for (ValueId v : step.in) in.push_back(&all_types_[v]);
    if (const Encode* encode = as<Encode>(step.op)) {
      if (encode->routing.capacity) return {};
      return {get(encode->routing.id, table_dims(s_.mesh, encode->routing, *in.back(), in.back()->chunk))};
    }
    if (as<CountWithin>(step.op)) {
      const Type& rows = *in.front();
      return {get(rows.dims[rows.jagged_index()].table, rows.prefix())};
    }
    const auto rows = std::find_if(in.begin(), in.end(), [](const Type* t) { return t->jagged_index() >= 0; });
    if (rows == in.end()) return {};
    const Type& t = **rows;
    const std::string& id = t.dims[t.jagged_index()].table;
    if (const Move* move = as<Move>(step.op)) return tables_of(*move, step);
    if (const Einsum* einsum = as<Einsum>(step.op); einsum && groups_rows(*einsum, in, t)) return {get(id, t.prefix())};
    if (reads_cells(step, in)) return {get(id, t.prefix())};
    return {};
  }

  std::vector<ValueId> tables_of(const Move& move, const Step& step) {
    std::vector<ValueId> tables;
    for (size_t i = 0; i < step.in.size(); ++i) {
      const Type &from = all_types_[step.in[i]], &to = all_types_[step.out[i]];
      if (!moves_cells(move, from)) return {};
      const std::string& id = from.dims[from.jagged_index()].table;
      tables.insert(tables.end(), {get(id, from.prefix()), get(id, to.prefix())});
    }
    return tables;
  }

  // Every layout that a table will be needed in, at once, least sharded first: one message, the rest are slices of it.
  void prepare(const std::string& id) {
    std::vector<std::vector<Dim>> layouts;
    for (const Type& t : all_types_) {
      const int j = t.jagged_index();
      if (j < 0 || t.dims[j].table != id) continue;
      const std::vector<Dim> dims = has_whole(id) ? whole(t.prefix()) : t.prefix();
      if (std::find(layouts.begin(), layouts.end(), dims) == layouts.end()) layouts.push_back(dims);
    }
    const auto sharded = [](const std::vector<Dim>& dims) {
      size_t n = 0;
      for (const Dim& d : dims) n += d.stack.size();
      return n;
    };
    std::stable_sort(layouts.begin(), layouts.end(),
                     [&](const auto& a, const auto& b) { return sharded(a) < sharded(b); });
    for (const auto& dims : layouts) get(id, dims);
  }

  // Whether all chunks are counted at once; rows within nodes are counted chunk by chunk, as they come.
  bool has_whole(const std::string& id) const {
    return std::any_of(have_.begin(), have_.end(),
                       [&](ValueId v) { return types_[v].routing == id && whole(types_[v].dims) == types_[v].dims; });
  }

  // The table of all chunks that a chunk's table is a part of.
  static std::vector<Dim> whole(std::vector<Dim> dims) {
    for (Dim& dim : dims) {
      if (dim.stack.empty() || dim.stack.back().is_atom()) continue;
      dim.size *= dim.stack.back().parts;
      dim.stack.pop_back();
    }
    return dims;
  }

  ValueId find(const std::string& id, const std::vector<Dim>& dims) const {
    for (ValueId v : have_)
      if (types_[v].routing == id && types_[v].dims == dims) return v;
    return -1;
  }

  ValueId get(const std::string& id, const std::vector<Dim>& dims) {
    stop::point();
    if (const ValueId v = find(id, dims); v >= 0) return v;
    if (whole(dims) == dims || !has_whole(id)) return moved(id, dims);
    const ValueId all = get(id, whole(dims));
    const int parts = dims.front().stack.back().parts;
    emit(Split{dims.front().name, dims.front().stack.back().split, parts}, all);
    return find(id, dims);
  }

  // By the cheapest relayout of what is there.
  ValueId moved(const std::string& id, const std::vector<Dim>& dims) {
    ValueId from = -1;
    Relayout best;
    for (ValueId v : have_) {
      if (types_[v].routing != id) continue;
      if (const auto way = relayout(v, dims);
          way && (from < 0 || std::pair(way->bytes, way->moves.size()) < std::pair(best.bytes, best.moves.size()))) {
        best = *way;
        from = v;
      }
    }
    if (from < 0) throw TypeFault(fmt::format("no relayout gives the table of {} as {}", id, to_string(s_.mesh, dims)));
    for (const Legs& legs : best.moves) from = emit(Move{legs}, from);
    return from;
  }

  std::optional<Relayout> relayout(ValueId v, const std::vector<Dim>& dims) {
    Type want{.dims = dims, .holds = std::vector<Hold>(s_.mesh.num_atoms(), Hold::I)};
    Legs message, slices;
    for (Atom a : s_.mesh.atoms()) {
      const Place from = types_[v].place(a), to = want.place(a);
      const bool both_whole = from.hold != Hold::S && to.hold != Hold::S;
      if (from == to || both_whole) continue;
      (from.hold == Hold::S ? message : slices).push_back({a, from.hold == Hold::R ? Place{Hold::R} : from, to});
    }
    const auto exchanges = [](const Leg& leg) { return leg.to.hold == Hold::S; };
    if (std::any_of(message.begin(), message.end(), exchanges))
      for (Leg& leg : message)
        if (!exchanges(leg)) leg.to = {Hold::R};
    Relayout way;
    Type type = types_[v];
    for (const Legs& legs : {message, slices}) {
      if (legs.empty()) continue;
      const auto next = try_move(type, legs);
      if (!next) return std::nullopt;
      Schedule one;
      one.mesh = s_.mesh;
      way.bytes += wire_cost(one, {type, *next}, {Move{legs}, {0}, {1}}, Item::all(8)).bytes;
      way.moves.push_back(legs);
      type = *next;
    }
    if (type.dims != dims) return std::nullopt;
    return way;
  }

  std::optional<Type> try_move(const Type& type, const Legs& legs) {
    try {
      return infer({s_.mesh, Move{legs}, {{"table", &type}}, "relayout"}).front();
    } catch (const TypeFault&) {
      return std::nullopt;
    }
  }

  // A step on a table right after what makes it: counts travel before the rows. Returns its first result.
  ValueId emit(const Op& op, ValueId v) {
    size_t at = 0;
    for (size_t i = 0; i < out_.size(); ++i)
      if (std::find(out_[i].step.out.begin(), out_[i].step.out.end(), v) != out_[i].step.out.end()) at = i + 1;
    Step step{op, {v}, {}};
    for (Type& type : infer({s_.mesh, op, {{s_.names[v], &types_[v]}}, "lower"})) {
      step.out.push_back(s_.add_value(fmt::format("{}.{}", s_.names[v], tables_++)));
      types_.push_back(std::move(type));
      have_.push_back(step.out.back());
    }
    const ValueId first = step.out.front();
    out_.insert(out_.begin() + static_cast<long>(at), {std::move(step), at ? out_[at - 1].source : 0});
    return first;
  }

  const Schedule& source_;
  Types all_types_;  // of the source
  Schedule s_;       // names and leaves of the result
  Types types_;      // of the result, tables included
  std::vector<Placed> out_;
  std::vector<ValueId> have_;  // tables made so far
  int tables_ = 0;
};

}  // namespace

Schedule lower(const Schedule& schedule) { return Lowering(schedule).run(); }

Schedule lowered(const Schedule& schedule) {
  const Types types = check(schedule);
  const auto reads_table = [&](const Step& step) {
    return std::ranges::any_of(step.in, [&](ValueId v) { return types[v].role == Role::table; });
  };
  return std::ranges::any_of(schedule.steps, reads_table) ? schedule : lower(schedule);
}

}  // namespace plait
