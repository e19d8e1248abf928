#include "train/saving.h"

#include <ATen/ops/full.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/errors.h"

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;
using Outcome = SaveResult::Outcome;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::chrono::milliseconds kAnswer{500};  // the longest that rank 0 lets the others wait for a word
constexpr double kTellEvery = 10;                  // s

// What rank 0 tells the others.
enum class State : int64_t { ready, busy, refused, not_finite, stuck };

// Where rank 0's own thread puts one tensor after another and the writing one takes them. Shared: a thread that hangs
// in the disk is left behind, and keeps it.
class Handover {
 public:
  void put(at::Tensor tensor) {
    const std::lock_guard lock(mutex_);
    tensor_ = std::move(tensor);
    changed_.notify_all();
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

  // In the writing thread.
  at::Tensor take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tensor_ || given_up_; });
    if (given_up_) throw CommError("the save was given up");
    at::Tensor tensor = std::move(*tensor_);
    tensor_.reset();
    changed_.notify_all();
    return tensor;
  }

  void wrote(int64_t bytes) {
    bytes_ += bytes;
    ++moves_;
  }

  void end(std::string refusal) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    refusal_ = std::move(refusal);
    changed_.notify_all();
  }

  // Whether the next tensor may come, or, after the last one, whether all is done; waits a little for it.
  enum class For { next, end };
  State look(For what) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return ended_ || (what == For::next && !tensor_); };
    if (!changed_.wait_for(lock, kAnswer, ready)) return State::busy;
    return refusal_.empty() ? State::ready : State::refused;
  }

  int64_t bytes() const { return bytes_; }
  int64_t moves() const { return moves_; }
  std::string refusal() const {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<at::Tensor> tensor_;
  bool given_up_ = false, ended_ = false;
  std::string refusal_;
  std::atomic<int64_t> bytes_ = 0, moves_ = 0;
};

bool is_finite(const at::Tensor& tensor) {
  const auto all = [](auto* values, int64_t count) {
    bool finite = true;
    for (int64_t i = 0; i < count; ++i) finite &= std::isfinite(values[i]);
    return finite;
  };
  if (tensor.scalar_type() == at::kFloat) return all(tensor.const_data_ptr<float>(), tensor.numel());
  if (tensor.scalar_type() == at::kDouble) return all(tensor.const_data_ptr<double>(), tensor.numel());
  return true;
}

// Rank 0's writing thread, and what its own thread knows of it.
class Writer {
 public:
  Writer(const CheckpointContent& content, const SavePlan& plan) : plan_(plan) {
    for (const auto* list : {&content.model, &content.optimizer})
      for (const TensorInfo& tensor : *list) all_ += tensor.bytes();
    CheckpointContent taken = content;
    taken.get = [handover = handover_](const std::string&) { return handover->take(); };
    taken.written = [handover = handover_](int64_t bytes) { handover->wrote(bytes); };
    thread_ = std::thread([handover = handover_, taken, dir = plan.dir, keep = plan.keep] {
      try {
        save_checkpoint(dir, taken, keep);
        handover->end("");
      } catch (const std::exception& error) {
        handover->end(error.what());
      }
    });
  }

  ~Writer() {
    handover_->give_up();
    stuck_ ? thread_.detach() : thread_.join();
  }

  void put(at::Tensor tensor) { handover_->put(std::move(tensor)); }

  State look(Handover::For what) {
    const State state = handover_->look(what);
    if (state == State::refused) why_ = handover_->refusal();
    if (state != State::busy) return state;
    if (const int64_t moves = handover_->moves(); moves != moves_) {
      moves_ = moves;
      moved_ = Clock::now();
    }
    if (plan_.progress && seconds_since(told_) > kTellEvery) {
      told_ = Clock::now();
      plan_.progress(handover_->bytes(), all_);
    }
    stuck_ = seconds_since(moved_) > plan_.patience;
    if (stuck_)
      why_ = fmt::format("cannot save a checkpoint in '{}': the disk has taken nothing for {:g} s (log.timeout)",
                         plan_.dir, plan_.patience);
    return stuck_ ? State::stuck : State::busy;
  }

  const std::string& why() const { return why_; }

 private:
  const SavePlan& plan_;
  std::shared_ptr<Handover> handover_ = std::make_shared<Handover>();
  int64_t all_ = 0, moves_ = 0;
  Clock::time_point moved_ = Clock::now(), told_ = Clock::now();
  bool stuck_ = false;
  std::string why_;
  std::thread thread_;
};

// Rank 0's word, at all ranks.
State told(wire::Group& everyone, State mine) {
  const at::Tensor word = at::full({}, everyone.rank() == 0 ? static_cast<int64_t>(mine) : 0, at::kLong);
  everyone.all_reduce({&word, 1});
  return static_cast<State>(word.item<int64_t>());
}

// Comes back when rank 0 is ready for more, or when there will be no more.
State settled(wire::Group& everyone, std::optional<Writer>& writer, Handover::For what) {
  State state = State::busy;
  while (state == State::busy) state = told(everyone, writer ? writer->look(what) : State::ready);
  return state;
}

Outcome outcome_of(State state) {
  switch (state) {
    case State::refused: return Outcome::refused;
    case State::not_finite: return Outcome::not_finite;
    case State::stuck: return Outcome::stuck;
    default: return Outcome::saved;
  }
}

}  // namespace

SaveResult save_together(wire::Group& everyone, CheckpointContent content, const SavePlan& plan) {
  const auto start = Clock::now();
  std::optional<Writer> writer;
  if (everyone.rank() == 0) writer.emplace(content, plan);
  std::string not_finite;
  State state = State::ready;
  for (const auto* list : {&content.model, &content.optimizer})
    for (const TensorInfo& info : *list) {
      if (state != State::ready) break;
      at::Tensor tensor = content.get(info.name);
      const bool finite = !writer || is_finite(tensor);
      if (!finite) not_finite = info.name;
      state = finite ? settled(everyone, writer, Handover::For::next) : told(everyone, State::not_finite);
      if (state == State::ready && writer) writer->put(std::move(tensor));
    }
  if (state == State::ready) state = settled(everyone, writer, Handover::For::end);
  SaveResult result{.outcome = outcome_of(state), .why = not_finite};
  if (writer && !writer->why().empty()) result.why = writer->why();
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace plait
