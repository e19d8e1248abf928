#include "run/lanes.h"

#include <ATen/Parallel.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace plait {
namespace {

// Being woken costs more than a few turns of letting others run.
constexpr int kLooks = 20;

// The kernel's struct sched_attr, first version; see sched_setattr(2).
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;  // ns; of an ordinary thread the runtime is how long a turn is
};

// A thread that sends has little to do whenever it wakes. With short turns it gets a core at once, instead of when a
// thread that computes has had its own turn, milliseconds later. Kernels that know no turns ignore it.
void ask_for_short_turns() {
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) != 0) return;
  attr.runtime = 100'000;
  syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

LaneThreads::LaneThreads(Work work) : work_(std::move(work)), awaited_(work_.lanes.size(), false) {
  for (const std::vector<int>& waits : work_.waits)
    for (int step : waits) awaited_[step] = true;
  try {
    for (Lane lane : {Lane::intra, Lane::inter})
      if (std::find(work_.lanes.begin(), work_.lanes.end(), lane) != work_.lanes.end())
        threads_.emplace_back([this, lane] { serve(lane); });
  } catch (...) {
    end();
    throw;
  }
}

LaneThreads::~LaneThreads() { end(); }

void LaneThreads::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneThreads::run(int first, int last) {
  {
    const std::lock_guard lock(mutex_);
    for (auto& ended : ended_) ended = first - 1;
    first_ = first;
    last_ = last;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  changed_.notify_all();
  walk(Lane::compute);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void LaneThreads::serve(Lane lane) {
  at::set_num_threads(1);
  ask_for_short_turns();
  for (int served = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || round_ > served; });
      if (ending_) return;
      served = round_;
    }
    walk(lane);
    {
      const std::lock_guard lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void LaneThreads::walk(Lane lane) {
  try {
    for (int step = first_; step < last_; ++step) {
      if (work_.lanes[step] != lane) continue;
      for (int before : work_.waits[step])
        if (before >= first_ && !wait_for(before)) return;
      work_.perform(step);
      ended(step);
      if (failed_) return;
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

// Whoever waits counts itself before it looks, so either it sees this step ended or it is seen here.
void LaneThreads::ended(int step) {
  ended_[static_cast<size_t>(work_.lanes[step])] = step;
  if (!awaited_[step] || waiting_ == 0) return;
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

// False when another lane has failed.
bool LaneThreads::wait_for(int step) {
  for (int look = 0; look < kLooks && !has_ended(step); ++look) std::this_thread::yield();
  if (has_ended(step)) return !failed_;
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [&] { return failed_ || has_ended(step); });
  --waiting_;
  return !failed_;
}

void LaneThreads::fail(std::exception_ptr what) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = what;
    failed_ = true;
  }
  changed_.notify_all();
  work_.on_failure();
}

}  // namespace plait
