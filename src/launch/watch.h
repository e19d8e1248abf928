// A thread that sees what a rank that waits cannot: a neighbour that died, the launcher's wish that this process ends,
// and a call of the wire that does not come back. Each ends this process with a report.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "launch/process.h"
#include "launch/rank_options.h"

namespace plait::launch {

class Watch {
 public:
  // on_fault(what): called once, in the thread of the watch; does not return. What is given must outlive the watch.
  Watch(const Process& process, const RankOptions& options, std::function<void(const std::string&)> on_fault);
  ~Watch();

 private:
  void serve();
  std::string fault();
  std::string dead_neighbour() const;
  // The operation of a lane that has been open for longest and sends; seconds it has been, 0: none.
  double longest_wait() const;

  const Process& process_;
  const RankOptions& options_;
  std::function<void(const std::string&)> on_fault_;
  double told_to_end_ = 0;  // when; 0: not
  double saw_death_ = 0;    // when; 0: not
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace plait::launch
