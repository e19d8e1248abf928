#include "schedule/testing/interpret.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "schedule/testing/kernels.h"
#include "schedule/testing/transfer.h"

namespace plait::oracle {
namespace {

class Interpreter {
 public:
  Interpreter(const Schedule& s, const Feed& feed) : s_(s), feed_(feed) {
    run_.types = check(s);
    run_.values.resize(s.names.size());
  }

  Execution run() {
    for (const Leaf& leaf : s_.leaves) load(leaf, 0);
    const int last = static_cast<int>(s_.steps.size());
    const Repeat section = s_.repeat.value_or(Repeat{last, last, 1});
    steps(0, section.first);
    for (int i = 0; i < section.times; ++i) {
      for (const Leaf& leaf : s_.leaves)
        if (i > 0 && feed_.count(leaf.value) && feed_.at(leaf.value).size() > 1) load(leaf, i);
      steps(section.first, section.last);
    }
    steps(section.last, last);
    return std::move(run_);
  }

 private:
  void load(const Leaf& leaf, int repeat) {
    if (leaf.kind == LeafKind::sum) {
      run_.values[leaf.value] = PerRank(s_.mesh.ranks(), Array(local_shape(s_.mesh, leaf.type)));
      return;
    }
    expects(feed_.count(leaf.value), "every leaf is fed: " + s_.names[leaf.value]);
    const std::vector<Array>& arrays = feed_.at(leaf.value);
    run_.values[leaf.value] = spread(s_.mesh, leaf.type, arrays[repeat % arrays.size()]);
  }

  void steps(int first, int last) {
    for (int i = first; i < last; ++i) {
      const Step& step = s_.steps[i];
      if (const Move* move = as<Move>(step.op))
        transfer(step, *move);
      else
        for (int r = 0; r < s_.mesh.ranks(); ++r) local(step, r);
      for (const Sharing& p : in_place(step)) run_.values[step.in[p.in]] = run_.values[step.out[p.out]];
    }
  }

  void transfer(const Step& step, const Move& move) {
    const size_t values = step.out.size();
    for (size_t i = 0; i < values; ++i) {
      const ValueId x = step.in[i], y = step.out[i];
      if (step.in.size() == values) {
        run_.values[y] = move_dense(s_.mesh, run_.types[x], move.legs, run_.values[x]);
        continue;
      }
      const RowsMove rows{run_.types[x], run_.types[y], move.legs};
      const RowTables tables{run_.values[step.in[values + 2 * i]], run_.values[step.in[values + 2 * i + 1]]};
      run_.values[y] = move_rows(s_.mesh, rows, run_.values[x], tables, run_.rows[y]);
    }
  }

  void local(const Step& step, int rank) {
    std::vector<Array> out;
    Call call{s_.mesh, rank, {}, {}, {}, out};
    for (ValueId v : step.in) {
      call.in_types.push_back(&run_.types[v]);
      call.in.push_back(&run_.values[v][rank]);
    }
    for (ValueId v : step.out) {
      call.out_types.push_back(&run_.types[v]);
      out.emplace_back(shape(call, run_.types[v]));
    }
    std::visit(
        [&]<class T>(const T& op) {
          if constexpr (!std::is_same_v<T, Move>) compute(call, op);
        },
        step.op);
    for (size_t i = 0; i < out.size(); ++i) {
      PerRank& all = run_.values[step.out[i]];
      all.resize(s_.mesh.ranks());
      all[rank] = std::move(out[i]);
    }
  }

  // As many rows as an operand has, or as the table says where rows are made.
  std::vector<int64_t> shape(const Call& call, const Type& type) {
    std::vector<int64_t> all = local_shape(s_.mesh, type);
    const int jagged = type.jagged_index();
    if (jagged < 0) return all;
    all.erase(all.begin(), all.begin() + jagged);
    for (size_t i = 0; i < call.in.size(); ++i) {
      const int rows = call.type(i).jagged_index();
      if (rows >= 0 && call.type(i).dims[rows].table == type.dims[jagged].table) {
        all[0] = call.x(i).shape[0];
        return all;
      }
    }
    const Array& table = *call.in.back();
    expects(call.in_types.back()->role == Role::table, "rows are made with a table: lower the schedule");
    all[0] = static_cast<int64_t>(std::accumulate(table.data.begin(), table.data.end(), 0.0));
    return all;
  }

  const Schedule& s_;
  const Feed& feed_;
  Execution run_;
};

}  // namespace

Execution interpret(const Schedule& schedule, const Feed& feed) { return Interpreter(schedule, feed).run(); }

Array global(const Schedule& schedule, const Execution& run, ValueId value) {
  return collect(schedule.mesh, run.types[value], run.values[value]);
}

Array recorded_table(const Schedule& schedule, const Execution& run, const std::string& routing) {
  for (const Step& step : schedule.steps)
    if ((as<Count>(step.op) || as<CountWithin>(step.op)) && run.types[step.out[0]].routing == routing)
      return global(schedule, run, step.out[0]);
  throw ContractError("no count of routing " + routing);
}

}  // namespace plait::oracle
