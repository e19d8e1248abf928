#include "verify/verify_schedule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/errors.h"
#include "checkpoint/gathered.h"
#include "checkpoint/parts.h"
#include "passes/differentiate.h"
#include "passes/loss.h"
#include "passes/lower.h"
#include "passes/one_rank.h"
#include "verify/leaf_data.h"
#include "wire/ranks.h"

namespace plait {
namespace {

// The same global array in the list and on one rank.
struct Compared {
  std::string what;
  ValueId many, one;
};

struct Both {
  Schedule many, one;
  std::vector<Compared> compared;
};

std::vector<Compared> outputs(const Schedule& s, const OneRank& one) {
  std::vector<Compared> all;
  for (ValueId v : s.outputs) all.push_back({"output %" + s.names[v], v, one.global[v]});
  return all;
}

Both with_derived_backward(const Schedule& s, const OneRank& one, ValueId loss) {
  const Differentiated many = differentiate(s, loss), reference = differentiate(one.schedule, one.global[loss]);
  Both both{many.schedule, reference.schedule, outputs(s, one)};
  for (const auto& [leaf, gradient] : many.gradients)
    both.compared.push_back({"gradient of %" + s.names[leaf], gradient, reference.gradients.at(leaf)});
  return both;
}

// The last cotangent that is made of each parameter: the sum of all.
std::map<ValueId, ValueId> gradients(const Schedule& s) {
  std::map<ValueId, ValueId> last;
  for (const Step& step : s.steps)
    for (ValueId v : step.out)
      if (const auto of = s.cotangent_of.find(v); of != s.cotangent_of.end())
        if (const Leaf* leaf = s.leaf(of->second); leaf && leaf->kind == LeafKind::parameter) last[of->second] = v;
  return last;
}

Both with_its_own_backward(const Schedule& s, const OneRank& one) {
  Both both{s, one.schedule, outputs(s, one)};
  for (const auto& [leaf, gradient] : gradients(s))
    both.compared.push_back({"gradient of %" + s.names[leaf], gradient, one.global[gradient]});
  for (const Step& step : s.steps)
    for (const Sharing& p : in_place(step))
      if (const Leaf* leaf = s.leaf(step.in[p.in]); leaf && leaf->kind == LeafKind::parameter)
        both.compared.push_back(
            {fmt::format("%{} after the step", s.names[leaf->value]), step.out[p.out], one.global[step.out[p.out]]});
  return both;
}

bool has_loss(const Schedule& s, const std::string& name) {
  if (!name.empty()) return true;
  try {
    loss_of(s);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

Both both_of(const Schedule& s, const std::string& loss) {
  const OneRank one = on_one_rank(s);
  if (has_backward(s)) return with_its_own_backward(s, one);
  if (has_loss(s, loss)) return with_derived_backward(s, one, loss_of(s, loss));
  return {s, one.schedule, outputs(s, one)};
}

// What a rank holds of a whole leaf. Of a partial sum the rank whose digits are 0 has all.
at::Tensor part(const at::Tensor& whole, const Type& type, const Mesh& mesh, int rank) {
  const at::Tensor mine = part_of(whole, type, StepTypes{mesh, rank, {}, {}, whole.scalar_type()});
  for (Atom a = 0; a < mesh.num_atoms(); ++a)
    if (type.holds[a] == Hold::P && mesh.digit(rank, a) != 0) mine.zero_();
  return mine;
}

void run_rank(Executor& executor, const LeafData& data, int rank) {
  const Schedule& s = executor.schedule();
  const auto mine = [&](const std::string& leaf, int micro) {
    return part(data.whole(leaf, micro), executor.types()[s.find(leaf)], s.mesh, rank);
  };
  for (const Leaf& leaf : s.leaves)
    if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
      executor.bind(s.names[leaf.value], mine(s.names[leaf.value], 0));
  executor.run(mine);
}

// The global arrays of these values.
std::vector<at::Tensor> performed(const Schedule& given, const std::vector<ValueId>& wanted,
                                  const ScheduleTrial& trial) {
  const Schedule s = lowered(given);
  const LeafData data(s, trial.seed);
  std::vector<std::vector<at::Tensor>> parts(wanted.size(), std::vector<at::Tensor>(s.mesh.ranks()));
  std::mutex mutex;
  const launch::RankOptions options{.ranks = s.mesh.ranks(),
                                    .lanes = trial.lanes ? kNumLanes - 1 : 0,
                                    .name = [&](int rank) { return s.mesh.coordinates(rank); }};
  wire::run_ranks(options, [&](int rank, wire::World& world) {
    Executor executor(s, {rank, &world, at::kDouble, kernels::kTile, trial.lanes}, {wanted});
    run_rank(executor, data, rank);
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < wanted.size(); ++i) parts[i][rank] = executor.value(wanted[i]).clone();
  });
  const Types types = check(s);
  std::vector<at::Tensor> wholes;
  for (size_t i = 0; i < wanted.size(); ++i) wholes.push_back(gathered(s.mesh, types[wanted[i]], parts[i]));
  return wholes;
}

// A value that is zero everywhere must be so on both sides, up to rounding.
double relative(const at::Tensor& a, const at::Tensor& b) {
  if (!at::isfinite(a).all().item<bool>() || !at::isfinite(b).all().item<bool>()) return INFINITY;
  const double size = b.abs().max().item<double>();
  return (a - b).abs().max().item<double>() / std::max(size, 1e-6);
}

}  // namespace

double ScheduleReport::largest() const {
  double most = 0;
  for (const Line& line : lines) most = std::max(most, line.relative);
  return most;
}

ScheduleReport verify_schedule(const Schedule& schedule, const ScheduleTrial& trial) {
  const Both both = both_of(schedule, trial.loss);
  if (both.compared.empty()) input_error("nothing to compare with one rank: add a line outputs %..");
  std::vector<ValueId> many, one;
  for (const Compared& c : both.compared) many.push_back(c.many), one.push_back(c.one);
  const std::vector<at::Tensor> mine = performed(both.many, many, trial);
  const std::vector<at::Tensor> reference = performed(both.one, one, {.seed = trial.seed});
  ScheduleReport report;
  for (size_t i = 0; i < mine.size(); ++i) {
    const at::Tensor theirs = reference[i].to(at::kDouble);
    report.lines.push_back({both.compared[i].what, relative(mine[i].to(at::kDouble).view(theirs.sizes()), theirs)});
  }
  return report;
}

}  // namespace plait
