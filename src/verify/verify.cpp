#include "verify/verify.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/errors.h"
#include "checkpoint/gathered.h"
#include "train/loop.h"

namespace plait {
namespace {

constexpr int kSteps = 3;

// Large enough that a wrong scale of a gradient shows in the parameters.
double rate(Optimizer::Kind kind) { return kind == Optimizer::Kind::sgd ? 1.0 : 1e-2; }

// What one run of a few steps leaves: everything whole.
struct Outcome {
  std::map<std::string, double> scalars;         // of the first step
  std::map<std::string, at::Tensor> gradients;   // of the first step
  std::map<std::string, at::Tensor> parameters;  // after the last
  std::map<std::string, std::string> groups;     // of the parameters
  std::vector<std::string> replicas;
};

std::vector<ValueId> all_gradients(const TrainingStep& step) {
  std::vector<ValueId> values;
  for (const auto& [name, value] : step.gradients) values.push_back(value);
  return values;
}

Keep gradients_of(const RunShape& shape) { return {all_gradients(build_step(shape))}; }

// Hashes of every rank's part of every parameter and moment, compared between ranks that hold the same part.
class Replicas {
 public:
  explicit Replicas(const Mesh& mesh) : mesh_(mesh) {}

  // Every rank of `group` calls it, and learns the same.
  std::vector<std::string> compare(const Trainer& trainer, wire::Group& group, int step) const {
    const Schedule& s = trainer.schedule().schedule;
    std::vector<const Leaf*> leaves;
    for (const Leaf& leaf : s.leaves)
      if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state) leaves.push_back(&leaf);
    const auto n = static_cast<int64_t>(leaves.size());
    const at::Tensor mine = at::empty({n}, at::kLong), all = at::empty({group.size(), n}, at::kLong);
    for (int64_t i = 0; i < n; ++i)
      mine.data_ptr<int64_t>()[i] = static_cast<int64_t>(trainer.fingerprint(s.names[leaves[i]->value]));
    group.all_gather(mine, all);
    std::vector<std::string> faults;
    for (int64_t i = 0; i < n; ++i) {
      std::map<std::vector<int64_t>, int> first;  // place of a part -> the first rank that holds it
      for (int r = 0; r < mesh_.ranks(); ++r) {
        std::vector<int64_t> place;
        for (const Dim& dim : leaves[i]->type.dims) place.push_back(local_range(mesh_, dim, r).first);
        const int other = first.try_emplace(place, r).first->second;
        const int64_t* hashes = all.data_ptr<int64_t>() + i;
        if (hashes[r * n] != hashes[other * n])
          faults.push_back(
              fmt::format("{} on ranks {} and {} after step {}", s.names[leaves[i]->value], other, r, step));
      }
    }
    return faults;
  }

 private:
  const Mesh& mesh_;
};

// A few steps of one rank among others; what is gathered is whole on all ranks.
Outcome walk(Trainer& trainer, const RunShape& shape, RankContext context, const Replicas& replicas) {
  Outcome out;
  const auto group = wire::everyone(*context.world, context.rank);
  for (int step = 0; step < kSteps; ++step) {
    const StepResult r = trainer.step(step, rate(shape.optimizer.kind));
    const auto faults = replicas.compare(trainer, *group, step + 1);
    out.replicas.insert(out.replicas.end(), faults.begin(), faults.end());
    if (step > 0) continue;
    out.scalars = {{"loss", r.nll}, {"auxiliary loss", r.aux}, {"global norm", r.grad_norm}};
    for (const Parameter& p : trainer.schedule().parameters)
      out.gradients[p.name] = trainer.whole_gradient(p.name).clone();
  }
  for (const Parameter& p : trainer.schedule().parameters) {
    out.parameters[p.name] = trainer.whole(p.name).clone();
    out.groups[p.name] = p.group;
  }
  return out;
}

Outcome outcome(const Config& config, const RunShape& shape, const data::Corpus& corpus) {
  const Replicas replicas(shape.mesh);
  launch::RankOptions options = rank_options(config);
  options.ranks = shape.mesh.ranks();
  const Keep keep = gradients_of(shape);
  return wire::run_ranks(options, [&](int rank, wire::World& world) {
    const RankContext context{rank, &world, at::kDouble};
    Trainer trainer(config, shape, corpus, context, keep);
    return walk(trainer, shape, context, replicas);
  });
}

double relative(double a, double b) { return std::abs(a - b) / std::max(std::abs(b), 1e-30); }

// max|a - b| / max|b|; a gradient that is zero everywhere must be so on both sides, up to rounding.
double relative(const at::Tensor& a, const at::Tensor& b) {
  const double difference = (a - b).abs().max().item<double>(), size = b.abs().max().item<double>();
  return difference / std::max(size, 1e-6);
}

// The worst of each group of tensors.
std::vector<Difference> differences(const std::string& what, const Outcome& mine, const Outcome& theirs,
                                    std::map<std::string, at::Tensor> Outcome::*tensors) {
  std::map<std::string, Difference> worst;
  for (const auto& [name, tensor] : mine.*tensors) {
    const std::string& group = mine.groups.at(name);
    Difference& d = worst[group];
    const double r = relative(tensor, (theirs.*tensors).at(name));
    if (d.what.empty() || !(r <= d.relative)) d = {what, group, name, r};
  }
  std::vector<Difference> all;
  for (const auto& [group, d] : worst) all.push_back(d);
  return all;
}

void append(std::vector<Difference>& all, const std::vector<Difference>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

Config in_float64(Config config) {
  config.train.dtype = RunType::float64;
  return config;
}

// The list of the given precision: a mixed one is checked with its casts, in float64 like any other.
RunShape shape_in_float64(const Planned& given) {
  RunShape shape = run_shape({in_float64(given.config), given.machine});
  shape.sizes.precision = model_sizes(given.config).precision;
  return shape;
}

}  // namespace

double VerifyReport::largest() const {
  double most = 0;
  for (const Difference& d : differences) most = std::isnan(d.relative) ? INFINITY : std::max(most, d.relative);
  return most;
}

VerifyReport verify(const Planned& given, const data::Corpus& corpus) {
  const Config config = in_float64(given.config);
  VerifyReport report;
  for (Optimizer::Kind kind : {Optimizer::Kind::sgd, Optimizer::Kind::adamw}) {
    RunShape shape = shape_in_float64(given);
    shape.optimizer.kind = kind;
    const Outcome mine = outcome(config, shape, corpus), reference = outcome(config, one_rank(shape), corpus);
    report.replicas.insert(report.replicas.end(), mine.replicas.begin(), mine.replicas.end());
    const bool first = kind == Optimizer::Kind::sgd;
    if (first) {
      for (const auto& [name, value] : mine.scalars)
        if (value != 0 || reference.scalars.at(name) != 0)
          report.differences.push_back({name, "", "", relative(value, reference.scalars.at(name))});
      append(report.differences, differences("gradient", mine, reference, &Outcome::gradients));
    }
    const std::string after = fmt::format("parameters after {} {} steps", kSteps, first ? "SGD" : "AdamW");
    append(report.differences, differences(after, mine, reference, &Outcome::parameters));
  }
  return report;
}

namespace {

// Every value of one step, on all ranks.
struct Everything {
  Schedule schedule;
  Types types;
  std::vector<std::vector<at::Tensor>> values;  // by value, by rank
};

Everything everything(const Config& config, const RunShape& shape, const data::Corpus& corpus) {
  Everything all;
  std::mutex mutex;
  launch::RankOptions options = rank_options(config);
  options.ranks = shape.mesh.ranks();
  wire::run_ranks(options, [&](int rank, wire::World& world) {
    Trainer trainer(config, shape, corpus, {rank, &world, at::kDouble}, {{}, Keep::What::all});
    trainer.step(0, rate(shape.optimizer.kind));
    const std::lock_guard lock(mutex);
    const Executor& e = trainer.executor();
    if (all.values.empty()) {
      all.schedule = e.schedule();
      all.types = e.types();
      all.values.resize(all.types.size(), std::vector<at::Tensor>(shape.mesh.ranks()));
    }
    for (size_t v = 0; v < all.types.size(); ++v)
      if (e.value(static_cast<ValueId>(v)).defined()) all.values[v][rank] = e.value(static_cast<ValueId>(v)).clone();
  });
  return all;
}

// For each forward value its last cotangent: the total.
std::map<std::string, ValueId> totals(const Schedule& s) {
  std::map<std::string, ValueId> last;
  for (const auto& [cotangent, of] : s.cotangent_of)
    last[s.names[of]] = std::max(last.try_emplace(s.names[of], -1).first->second, cotangent);
  return last;
}

class Search {
 public:
  Search(const Everything& mine, const Everything& reference)
      : mine_(mine), reference_(reference), totals_(totals(reference.schedule)), mine_totals_(totals(mine.schedule)) {}

  std::string first() const {
    for (size_t i = 0; i < mine_.schedule.steps.size(); ++i)
      for (ValueId v : compared(mine_.schedule.steps[i]))
        if (std::string fault = look(v); !fault.empty())
          return fmt::format("step {}, %{}: {}", i, mine_.schedule.names[v], fault);
    return {};
  }

 private:
  // Not compared: a parameter that was entered (the update has gone over it since), and without dropping the slots of a
  // gate, which are places among this rank's own routes.
  std::vector<ValueId> compared(const Step& step) const {
    if (as<Move>(step.op) && mine_.schedule.leaf(step.in[0])) return {};
    const Route* route = as<Route>(step.op);
    const HashRoute* hash = as<HashRoute>(step.op);
    return (route && !route->capacity) || (hash && !hash->capacity) ? std::vector<ValueId>{step.out[0], step.out[1]}
                                                                    : step.out;
  }

  // The value of the reference that this one equals as a global array, -1 where there is none to compare.
  ValueId counterpart(ValueId v) const {
    auto of = mine_.schedule.cotangent_of.find(v);
    if (of == mine_.schedule.cotangent_of.end()) return reference_.schedule.find(mine_.schedule.names[v]);
    const std::string& value = mine_.schedule.names[of->second];
    const auto other = totals_.find(value);
    return mine_totals_.at(value) == v && other != totals_.end() ? other->second : -1;
  }

  std::string look(ValueId v) const {
    const Type& type = mine_.types[v];
    if (type.jagged_index() >= 0 || type.role != Role::plain || !mine_.values[v][0].defined()) return {};
    const at::Tensor whole = gathered(mine_.schedule.mesh, type, mine_.values[v]);
    if (whole.is_floating_point() && !at::isfinite(whole).all().item<bool>()) return "is not finite";
    const ValueId other = counterpart(v);
    if (other < 0 || !reference_.values[other][0].defined()) return {};
    const at::Tensor theirs = reference_.values[other][0];
    if (theirs.sizes() != whole.sizes()) return {};
    const double r = relative(whole.to(at::kDouble), theirs.to(at::kDouble));
    return r < 1e-9 ? std::string() : fmt::format("differs from one rank by {:.1e} of its largest element", r);
  }

  const Everything &mine_, &reference_;
  std::map<std::string, ValueId> totals_, mine_totals_;
};

}  // namespace

std::string locate(const Planned& given, const data::Corpus& corpus) {
  const Config config = in_float64(given.config);
  const RunShape shape = shape_in_float64(given);
  return Search(everything(config, shape, corpus), everything(config, one_rank(shape), corpus)).first();
}

}  // namespace plait
