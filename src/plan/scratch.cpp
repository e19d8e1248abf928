#include "plan/scratch.h"

#include "schedule/message_plan.h"

namespace plait {

namespace {

// The counts of rows that a message's values are expected to have on the rank, before and after.
class ExpectedTables {
 public:
  ExpectedTables(const StepOnRank& at, const MessagePlan& plan) : counts_(2 * plan.cuts.size()) {
    for (size_t i = 0; i < plan.cuts.size(); ++i) {
      if (plan.cuts[i].rows) counts_[2 * i] = at.rows.cells(at.types[at.step.in[i]]);
      if (plan.cuts[i].rows) counts_[2 * i + 1] = at.rows.cells(at.types[at.step.out[i]]);
      tables_.push_back({counts_[2 * i].data(), counts_[2 * i + 1].data()});
    }
  }
  std::span<const CellCounts> tables() const { return tables_; }

 private:
  std::vector<std::vector<int64_t>> counts_;
  std::vector<CellCounts> tables_;
};

std::vector<const Type*> types_of(const Types& types, const std::vector<ValueId>& values) {
  std::vector<const Type*> all;
  for (ValueId v : values) all.push_back(&types[v]);
  return all;
}

}  // namespace

int64_t scratch_bytes(const StepOnRank& at) {
  const Move* move = as<Move>(at.step.op);
  if (!move) return traits_of(at.step.op).scratch({at.mesh, at.types, at.step});
  if (collective(move->legs) == Collective::none) return 0;
  const std::vector<const Type*> in = types_of(at.types, at.step.in), out = types_of(at.types, at.step.out);
  const MessagePlan plan = message_plan({at.mesh, at.rank, move->legs, in, out});
  std::vector<int64_t> item;
  for (ValueId v : at.step.in) item.push_back(at.item[v]);
  return buffer_bytes(plan, parcels(plan, ExpectedTables(at, plan).tables()), item);
}

}  // namespace plait
