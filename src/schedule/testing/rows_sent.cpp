#include "schedule/testing/rows_sent.h"

#include "schedule/message_plan.h"

namespace plait::oracle {
namespace {

std::vector<int64_t> counts(const Mesh& mesh, const Type& rows, int rank, const std::vector<double>& table) {
  std::vector<int64_t> all;
  for (int64_t cell : cells(mesh, rows.prefix(), rank)) all.push_back(static_cast<int64_t>(table[cell]));
  return all;
}

}  // namespace

std::vector<std::vector<double>> rows_sent(const Mesh& mesh, const RowsMove& move, const std::vector<double>& table) {
  std::vector<std::vector<double>> sent(mesh.ranks(), std::vector<double>(mesh.ranks(), 0));
  const std::vector<const Type*> in = {&move.from}, out = {&move.to};
  for (int r = 0; r < mesh.ranks(); ++r) {
    const MessagePlan plan = message_plan({mesh, r, move.legs, in, out});
    const std::vector<int64_t> before = counts(mesh, move.from, r, table), after = counts(mesh, move.to, r, table);
    double rows = 0;
    for (int64_t n : before) rows += static_cast<double>(n);
    const CellCounts cells{before.data(), after.data()};
    const std::vector<Parcel> message = parcels(plan, {&cells, 1});
    const auto to = [&](size_t member) {
      if (plan.collective == Collective::all_gather) return rows;
      if (message.empty()) return rows * 2 / static_cast<double>(plan.members.size());
      return static_cast<double>(message[0].send.counts[member]);
    };
    for (size_t m = 0; m < plan.members.size(); ++m)
      if (const int q = plan.members[m]; q != r) sent[r][q] = to(m);
  }
  return sent;
}

}  // namespace plait::oracle
