// Performs steps on several lanes at once: compute in the caller's thread, each wire lane in a thread of its own.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "schedule/lanes.h"

namespace plait {

class LaneThreads {
 public:
  struct Work {
    std::vector<Lane> lanes;              // by step
    std::vector<std::vector<int>> waits;  // by step
    std::function<void(int step)> perform;
    std::function<void()> on_failure;  // ends what the other lanes may be waiting for
  };

  // std::system_error where the system starts no thread for a lane.
  explicit LaneThreads(Work work);
  ~LaneThreads();

  // Steps [first, last), each lane in order; returns when all have ended. Rethrows the first failure of any lane.
  void run(int first, int last);

 private:
  void end();
  void serve(Lane lane);
  void walk(Lane lane);
  void ended(int step);
  bool has_ended(int step) const { return ended_[static_cast<size_t>(work_.lanes[step])].load() >= step; }
  bool wait_for(int step);
  void fail(std::exception_ptr what);

  Work work_;
  std::vector<bool> awaited_;  // by step: another lane waits for it
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::atomic<int>, kNumLanes> ended_ = {};  // by lane: its last step that has ended
  std::atomic<int> waiting_ = 0;                        // lanes
  std::atomic<bool> failed_ = false;
  int first_ = 0, last_ = 0;
  int round_ = 0, busy_ = 0;  // runs begun; lanes still at work
  bool ending_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace plait
