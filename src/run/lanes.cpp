#include "run/lanes.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace plait {

LaneThreads::LaneThreads(Work work) : work_(std::move(work)), done_(work_.lanes.size(), false) {
  for (Lane lane : {Lane::intra, Lane::inter})
    if (std::find(work_.lanes.begin(), work_.lanes.end(), lane) != work_.lanes.end())
      threads_.emplace_back([this, lane] { serve(lane); });
}

LaneThreads::~LaneThreads() {
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
    std::fill(done_.begin(), done_.end(), false);
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
      {
        const std::lock_guard lock(mutex_);
        done_[step] = true;
        if (failure_) return;
      }
      changed_.notify_all();
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

// False when another lane has failed.
bool LaneThreads::wait_for(int step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || done_[step]; });
  return !failure_;
}

void LaneThreads::fail(std::exception_ptr what) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = what;
  }
  changed_.notify_all();
  work_.on_failure();
}

}  // namespace plait
