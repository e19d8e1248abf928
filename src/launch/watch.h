// A thread that sees what a rank that waits cannot: a neighbour that died, and a call of the wire that does not come
// back. Each ends this process with a report. When the process was told to end while it waits for a rank of another
// node, it says so once: the other node may have nobody left who can. Where nobody looks at what the process was told
// the watch ends it, but not before a death could be reported: launchers tell all ranks to end as soon as one has died.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/stop.h"
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
  void told_to_end();
  void tell_wait();
  // Seconds that a lane's operation has been open which sends, the longest; 0: none. Pauses do not count.
  double longest_wait() const;

  const Process& process_;
  const RankOptions& options_;
  std::function<void(const std::string&)> on_fault_;
  std::optional<stop::Signals> signals_;  // where nobody else notes them
  double awake_since_;                    // of the clock of boards
  double told_to_end_ = 0;                // when; 0: not
  double saw_death_ = 0;                  // when; 0: not
  bool told_wait_ = false;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace plait::launch
