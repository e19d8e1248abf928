#include "run/executor.h"

#include <ATen/ops/ones.h>

#include <algorithm>

#include "base/errors.h"
#include "kernels/cpu/gate.h"
#include "launch/board.h"

namespace plait {

Executor::Executor(Schedule schedule, RankContext context, Keep keep)
    : Executor(std::move(schedule), context, std::move(keep),
               std::make_shared<Buffers>([context](int64_t bytes) { return context.memory(bytes); })) {}

Executor::Executor(Schedule schedule, RankContext context, const Executor& other)
    : Executor(std::move(schedule), context, {}, other.buffers_) {}

Executor::Executor(Schedule schedule, RankContext context, Keep keep, std::shared_ptr<Buffers> buffers)
    : schedule_(std::move(schedule)),
      context_(context),
      types_(check(schedule_)),
      tags_(memory_tags(schedule_, types_)),
      groups_(schedule_.mesh, context),
      buffers_(std::move(buffers)),
      values_(schedule_.names.size()) {
  const bool on_lanes = context_.lanes && context_.world;
  lane_ = on_lanes ? lanes(schedule_, context_.lanes->ranks_per_node) : without_lanes(schedule_);
  prepare_steps();
  plan_lifetimes(keep);
  prepare_memory();
  if (context_.world) prepare_board();
  if (on_lanes) start_lanes(lane_rules(schedule_, lane_).waits);
  const StepTypes all{schedule_.mesh, context_.rank, {}, {}, context_.dtype};
  for (const Leaf& leaf : schedule_.leaves) {
    const auto shape = local_shape(schedule_.mesh, leaf.type);
    if (leaf.kind == LeafKind::seed) values_[leaf.value].tensor = at::ones(shape, all.scalar(leaf.type));
    if (leaf.kind == LeafKind::sum) values_[leaf.value].tensor = context_.zeros(shape, all.scalar(leaf.type));
  }
}

void Executor::prepare_steps() {
  for (const Step& step : schedule_.steps) {
    StepTypes types{schedule_.mesh, context_.rank, {}, {}, context_.dtype, context_.tile};
    for (ValueId v : step.in) types.in.push_back(&types_[v]);
    for (ValueId v : step.out) types.out.push_back(&types_[v]);
    const Move* move = as<Move>(step.op);
    prepared_.push_back({move ? prepare_move(*move, types, groups_) : prepare_kernel(step.op, types), {}, {}});
  }
}

void Executor::prepare_memory() {
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    const Step& step = schedule_.steps[i];
    Prepared& prepared = prepared_[i];
    StepMemory& memory = prepared.memory;
    memory.sharing = sharing(schedule_.mesh, types_, step);
    for (ValueId v : step.out) memory.tags.push_back(tags_[v]);
    memory.scratch = {MemoryClass::scratch, memory.tags.front().expert};
    for (ValueId v : step.in) memory.dies.push_back(std::ranges::find(prepared.freed, v) != prepared.freed.end());
  }
}

void Executor::prepare_board() {
  board_ = &context_.world->board(context_.rank);
  for (size_t i = 0; i < schedule_.steps.size(); ++i) {
    const Step& step = schedule_.steps[i];
    titles_.push_back(fmt::format("step {} {} -> %{}", i, schedule_.title(step), schedule_.names[step.out.front()]));
  }
}

void Executor::plan_lifetimes(const Keep& keep) {
  std::vector<ValueId> kept = keep.values;
  if (keep.what == Keep::What::all)
    for (ValueId v = 0; v < static_cast<ValueId>(values_.size()); ++v) kept.push_back(v);
  Lifetimes lives = lifetimes(schedule_, lane_, kept);
  freed_after_section_ = std::move(lives.end_after_section);
  freed_at_end_ = std::move(lives.end_with_list);
  for (size_t i = 0; i < prepared_.size(); ++i) prepared_[i].freed = std::move(lives.ends[i]);
}

void Executor::bind(const std::string& leaf, at::Tensor tensor) {
  const ValueId v = schedule_.find(leaf);
  const Leaf* l = v < 0 ? nullptr : schedule_.leaf(v);
  expects(l && (l->kind == LeafKind::parameter || l->kind == LeafKind::state),
          "bind: " + leaf + " is no parameter or state of the schedule");
  expects(tensor.sizes() == at::IntArrayRef(local_shape(schedule_.mesh, l->type)),
          "bind: " + leaf + " has another shape");
  expects(tensor.is_contiguous(), "bind: a bound tensor is contiguous");
  values_[v] = {std::move(tensor), nullptr};
}

at::Tensor Executor::bound(const std::string& leaf) const {
  const ValueId v = schedule_.find(leaf);
  expects(v >= 0, "bound: no leaf " + leaf);
  return values_[v].tensor;
}

double Executor::scalar(ValueId v) const { return values_[v].tensor.item<double>(); }

MemoryUse Executor::memory() const {
  MemoryUse use = buffers_->asked_at_peak();
  for (const Leaf& leaf : schedule_.leaves)
    if (const at::Tensor& tensor = values_[leaf.value].tensor; tensor.defined())
      use.at(tags_[leaf.value]) += static_cast<int64_t>(tensor.nbytes());
  return use;
}

void Executor::feed_leaves(const Feed& feed, LeafKind kind, int micro) {
  for (const Leaf& leaf : schedule_.leaves)
    if (leaf.kind == kind) values_[leaf.value] = {feed(schedule_.names[leaf.value], micro), nullptr};
}

void Executor::run(const Feed& feed) {
  for (const Step& step : schedule_.steps)  // what the last run left is memory for this one
    for (ValueId v : step.out) values_[v] = {};
  feed_leaves(feed, LeafKind::scalar, 0);
  for (const Leaf& leaf : schedule_.leaves)
    if (leaf.kind == LeafKind::sum) values_[leaf.value].tensor.zero_();
  const int end = static_cast<int>(schedule_.steps.size());
  const Repeat r = schedule_.repeat.value_or(Repeat{0, end, 1});
  feed_leaves(feed, LeafKind::data, 0);
  run_steps(0, r.first);
  for (int micro = 0; micro < r.times; ++micro) {
    if (micro > 0) feed_leaves(feed, LeafKind::data, micro);
    run_steps(r.first, r.last);
  }
  for (ValueId v : freed_after_section_) values_[v] = {};
  run_steps(r.last, end);
  for (ValueId v : freed_at_end_) values_[v] = {};
}

void Executor::start_lanes(std::vector<std::vector<int>> waits) {
  lanes_ = std::make_unique<LaneThreads>(LaneThreads::Work{.lanes = lane_,
                                                           .waits = std::move(waits),
                                                           .perform = [this](int step) { run_step(step); },
                                                           .on_failure = [world = context_.world] { world->fail(); }});
}

void Executor::run_steps(int first, int last) {
  if (first == last) return;
  if (lanes_) return lanes_->run(first, last);
  for (int i = first; i < last; ++i) run_step(i);
}

void Executor::run_step(int index) {
  wire::LaneBoard* lane = board_ ? &board_->lanes[static_cast<size_t>(lane_[index])] : nullptr;
  if (lane) lane->begin_step(titles_[index]);
  observed(index);
  if (lane) lane->end_step();
}

void Executor::observed(int index) {
  if (!observer_) return perform(index);
  Span span{index, lane_[index], std::chrono::steady_clock::now(), {}};
  perform(index);
  span.end = std::chrono::steady_clock::now();
  const std::lock_guard lock(observing_);
  observer_(span);
}

void Executor::perform(int index) {
  const Step& step = schedule_.steps[index];
  const Prepared& prepared = prepared_[index];
  std::vector<Value*> in, out;
  for (ValueId v : step.in) in.push_back(&values_[v]);
  for (ValueId v : step.out) out.push_back(&values_[v]);
  try {
    Call call(in, out, prepared.memory, buffers_);
    prepared.kernel(call);
  } catch (const kernels::GateFault& e) {
    throw NotFinite(fmt::format("%{}: {}", schedule_.names[step.out.front()], e.what()));
  } catch (const c10::Error& e) {
    throw StepFault(fmt::format("step {} {} -> %{}: {}", index, schedule_.title(step),
                                schedule_.names[step.out.front()], e.what_without_backtrace()));
  } catch (const ContractError& e) {
    throw ContractError(fmt::format("step {} {} -> %{}: {}", index, schedule_.title(step),
                                    schedule_.names[step.out.front()], e.what()));
  }
  for (ValueId v : prepared.freed) values_[v] = {};
}

}  // namespace plait
