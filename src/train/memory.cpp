#include "train/memory.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/errors.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/gathered.h"
#include "run/profile.h"
#include "train/run_shape.h"

namespace plait {
namespace {

struct Term {
  MemoryTag tag;
  int64_t bytes = 0;
};

Term largest_term(const MemoryUse& use) {
  Term largest;
  for (int c = 0; c < kMemoryClasses; ++c)
    for (bool expert : {false, true}) {
      const MemoryTag tag{static_cast<MemoryClass>(c), expert};
      if (const int64_t bytes = use.at(tag); bytes > largest.bytes) largest = {tag, bytes};
    }
  return largest;
}

bool is_state(MemoryClass what) {
  return what == MemoryClass::parameters || what == MemoryClass::optimizer || what == MemoryClass::gradients;
}

// Keys that change it, the one that costs least first.
std::string what_lowers(const Config& c, MemoryTag tag) {
  std::vector<std::string> ways;
  if (is_state(tag.what)) {
    const bool shared = (tag.expert ? expert_data_ranks(c) : c.mesh.dp) > 1;
    const int64_t zero = tag.what == MemoryClass::optimizer ? 1 : 3;
    if (shared && c.memory.zero < zero) ways.push_back(fmt::format("set memory.zero = {}", zero));
    ways.push_back(tag.expert ? "raise mesh.ep or mesh.esp" : "raise mesh.tp");
  } else {
    if (tag.what == MemoryClass::kept && c.memory.recompute != Recompute::full)
      ways.push_back("set memory.recompute = \"full\"");
    if (c.train.micro_batch_size > 1) ways.push_back("lower train.micro_batch_size");
    ways.push_back("lower train.seq_length or raise mesh.tp");
  }
  return join(ways, ", or ");
}

}  // namespace

Item item_of(at::ScalarType dtype) {
  return {.real = static_cast<int>(c10::elementSize(dtype)),
          .integer = 8,
          .full = static_cast<int>(c10::elementSize(full_precision(dtype)))};
}

MemoryPlan predict_memory(const Planned& run) {
  const Schedule schedule = build_step(run_shape(run)).schedule;
  return plan_memory(schedule, check(schedule), {.item = item_of(dtype_of(run.config))});
}

bool fits_memory(const Planned& run) {
  const std::optional<int64_t> limit = memory_limit(run.config);
  return !limit || predict_memory(run).peak.total() <= *limit;
}

namespace {

std::string bytes(int64_t n) { return human_bytes(static_cast<double>(n)); }

std::string largest_part(const Config& config, const MemoryUse& peak) {
  const Term term = largest_term(peak);
  return fmt::format("the largest part of it is {}{}, {}: {}", name(term.tag.what),
                     term.tag.expert ? " of experts" : "", bytes(term.bytes), what_lowers(config, term.tag));
}

// Of several ranks together, beside what there is.
std::string need(int64_t ranks, int64_t each, const launch::Limit& limit) {
  const std::string needed =
      ranks == 1 ? fmt::format("a rank needs {}", bytes(each))
                 : fmt::format("{} ranks here need {}, {} each", ranks, bytes(ranks * each), bytes(each));
  return fmt::format("{}, and of {} ({}) {} are left", needed, bytes(limit.most), limit.by, bytes(limit.left()));
}

// What the program takes besides, at least, and as a share of what the ranks need.
constexpr int64_t kBesides = int64_t{256} << 20;
constexpr double kBesidesShare = 0.1;

int64_t besides(int64_t needed) {
  return std::max(kBesides, static_cast<int64_t>(kBesidesShare * static_cast<double>(needed)));
}

// A step as a list takes about so much, before any rank is there.
int64_t bytes_of_list(const Config& c) {
  constexpr int64_t kLayer = 300 << 10, kChunk = 80 << 10;
  return c.model.num_hidden_layers * kLayer + num_expert_layers(c) * c.schedule.chunks * kChunk;
}

void expect_list(const Config& config, const std::vector<launch::Limit>& limits) {
  for (const launch::Limit& limit : limits)
    if (bytes_of_list(config) > std::max(limit.left(), kBesides))
      input_error(
          "a step of model.num_hidden_layers = {} and schedule.chunks = {} needs about {} as a list, and of {} ({}) {} "
          "are left: lower them",
          config.model.num_hidden_layers, config.schedule.chunks, bytes(bytes_of_list(config)), bytes(limit.most),
          limit.by, bytes(limit.left()));
}

}  // namespace

MemoryFit memory_fit(const Planned& run, const MemoryHere& here) {
  using Is = MemoryFit::Is;
  const Config& config = run.config;
  const std::optional<int64_t> limit = memory_limit(config);
  if (!limit && here.limits.empty()) return {};
  expect_list(config, here.limits);
  const MemoryUse peak = predict_memory(run).peak;
  const int64_t each = peak.total();
  const std::string part = largest_part(config, peak);
  if (limit && each > *limit)
    return {Is::beyond_limit,
            fmt::format("memory.limit = \"{}\", but a rank needs {}; {}", config.memory.limit, bytes(each), part)};
  MemoryFit fit;
  for (const launch::Limit& least : here.limits) {
    const int64_t ranks = ranks_under(least, here.ranks), left = least.left() - ranks * each;
    if (left < 0) return {Is::beyond_here, fmt::format("{}; {}", need(ranks, each, least), part)};
    if (left < besides(ranks * each))
      fit = {Is::tight, fmt::format("{}: too little may remain for the program, evaluations and checkpoints; {}",
                                    need(ranks, each, least), part)};
  }
  return fit;
}

void expect_memory(const Planned& run) {
  if (const MemoryFit fit = memory_fit(run, {}); fit.is == MemoryFit::Is::beyond_limit) throw InputError(fit.line);
}

std::vector<ValueId> RowWatch::tables(const Schedule& schedule) {
  std::vector<ValueId> all;
  for (const Step& step : schedule.steps)
    if (as<Count>(step.op)) all.push_back(step.out[0]);
  return all;
}

void RowWatch::note(const Span& span) {
  const Step& step = executor_.schedule().steps[static_cast<size_t>(span.step)];
  if (!as<Count>(step.op)) return;
  const ValueId table = step.out[0];
  if (parts_.empty() || parts_.back().count(table)) parts_.emplace_back();
  parts_.back()[table] = executor_.value(table).clone();
}

std::vector<RowTables> RowWatch::whole() {
  const std::shared_ptr<wire::Group> world = wire::everyone(*context_.world, context_.rank);
  std::vector<RowTables> all;
  for (const auto& parts : parts_) {
    RowTables& tables = all.emplace_back();
    for (const auto& [value, part] : parts) {
      const at::Tensor together = at::empty({world->size(), part.numel()}, part.options());
      world->all_gather(part.contiguous().view({-1}), together);
      std::vector<at::Tensor> by_rank;
      for (int r = 0; r < world->size(); ++r) by_rank.push_back(together.select(0, r).view(part.sizes()));
      const Type& type = executor_.types()[static_cast<size_t>(value)];
      const at::Tensor table = gathered(executor_.schedule().mesh, type, by_rank);
      const int64_t* counts = table.const_data_ptr<int64_t>();
      tables[type.routing].assign(counts, counts + table.numel());
    }
  }
  parts_.clear();
  return all;
}

namespace {

constexpr int64_t kNumbers = 4 * kMemoryClasses + 1;  // of a comparison

void write(const MemoryUse& use, int64_t*& to) {
  for (const auto* bytes : {&use.dense, &use.expert}) to = std::copy(bytes->begin(), bytes->end(), to);
}

void read(MemoryUse& use, const int64_t*& from) {
  for (auto* bytes : {&use.dense, &use.expert}) {
    std::copy_n(from, kMemoryClasses, bytes->begin());
    from += kMemoryClasses;
  }
}

}  // namespace

MemoryComparison compare_memory(const Executor& executor, RowWatch& watch, RankContext context) {
  const std::vector<RowTables> tables = watch.whole();
  const Schedule& schedule = executor.schedule();
  const MemoryPlan plan = plan_memory(
      schedule, executor.types(),
      {.rank = context.rank, .item = item_of(context.dtype), .kept = RowWatch::tables(schedule), .tables = tables});
  const std::shared_ptr<wire::Group> world = wire::everyone(*context.world, context.rank);
  const at::Tensor mine = at::empty({kNumbers}, at::kLong), all = at::empty({world->size(), kNumbers}, at::kLong);
  int64_t* to = mine.mutable_data_ptr<int64_t>();
  write(plan.peak, to);
  write(executor.memory(), to);
  *to = executor.buffers().reserved();
  world->all_gather(mine, all);
  MemoryComparison most;
  for (int r = 0; r < world->size(); ++r) {
    const at::Tensor row = all.select(0, r);
    const int64_t* from = row.const_data_ptr<int64_t>();
    MemoryComparison one{.rank = r};
    read(one.predicted, from);
    read(one.measured, from);
    one.reserved = *from;
    one.all_predicted = most.all_predicted + one.predicted.total();
    one.all_measured = most.all_measured + one.measured.total();
    if (r == 0 || one.measured.total() > most.measured.total()) most = one;
    most.all_predicted = one.all_predicted;
    most.all_measured = one.all_measured;
  }
  return most;
}

}  // namespace plait
