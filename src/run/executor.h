// Performs a schedule on one rank: the list in order, each step a prepared kernel or a move on the wire, memory of
// values reused as soon as their last reader is done. Prepared once, run every training step.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "run/lanes.h"
#include "run/moves.h"

namespace plait {

// A step that failed on what it was given: "%l1.route: the gate's logit of token 3 for expert 1 is nan".
struct StepFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A gate's logit that is not finite.
struct NotFinite : StepFault {
  using StepFault::StepFault;
};

// What a run is fed: a data or scalar leaf by name, for micro-batch `micro` (0 for scalars).
using Feed = std::function<at::Tensor(const std::string& leaf, int micro)>;

// One step as it was performed: what a profile or a trace is made of.
struct Span {
  int step = 0;  // index in the schedule
  Lane lane = Lane::compute;
  std::chrono::steady_clock::time_point begin, end;
};
using Observer = std::function<void(const Span&)>;

struct Keep {
  std::vector<ValueId> values;  // not freed after their last reader, besides outputs
  enum class What { listed, all } what = What::listed;
};

class Executor {
 public:
  // `schedule` is lowered. Throws TypeFault.
  Executor(Schedule schedule, RankContext context, Keep keep = {});
  // With the buffers of another executor of this rank, which never runs at the same time.
  Executor(Schedule schedule, RankContext context, const Executor& other);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Parameters and state: tensors that live on, updated in place by the schedule. REQUIRES the leaf's local shape.
  void bind(const std::string& leaf, at::Tensor tensor);
  at::Tensor bound(const std::string& leaf) const;

  // Every rank of the world calls it. The seed is 1. Throws StepFault, CommError.
  void run(const Feed& feed);

  // Called after every step from now on, by one lane at a time; an empty one ends it. Without it no clock is read.
  void observe(Observer observer) { observer_ = std::move(observer); }

  // An output, or a kept value, of the last run; its memory is used again by the next. `scalar` wants one element.
  const at::Tensor& value(ValueId v) const { return values_[v].tensor; }
  double scalar(ValueId v) const;

  const Schedule& schedule() const { return schedule_; }
  const Types& types() const { return types_; }
  const Buffers& buffers() const { return *buffers_; }
  // The bytes of leaves, and what was asked of the buffers when that was most, since the executor was made.
  MemoryUse memory() const;

 private:
  struct Prepared {
    Kernel kernel;
    StepMemory memory;
    std::vector<ValueId> freed;  // after the step
  };

  Executor(Schedule schedule, RankContext context, Keep keep, std::shared_ptr<Buffers> buffers);

  void prepare_steps();
  void prepare_memory();
  void prepare_board();
  void plan_lifetimes(const Keep& keep);
  void feed_leaves(const Feed& feed, LeafKind kind, int micro);
  void start_lanes(std::vector<std::vector<int>> waits);
  void run_steps(int first, int last);
  void run_step(int index);
  void observed(int index);
  void perform(int index);

  Schedule schedule_;
  RankContext context_;
  Types types_;
  std::vector<MemoryTag> tags_;  // by value
  Groups groups_;
  std::shared_ptr<Buffers> buffers_;
  std::vector<Value> values_;
  std::vector<Prepared> prepared_;
  std::vector<ValueId> freed_after_section_, freed_at_end_;
  std::vector<Lane> lane_;  // by step
  wire::RankBoard* board_ = nullptr;
  std::vector<std::string> titles_;  // by step, for the board
  Observer observer_;
  std::mutex observing_;
  std::unique_ptr<LaneThreads> lanes_;  // null: everything in the rank's own thread
};

}  // namespace plait
