// How a rank waits: it looks again for a while, then lets other threads run between looks, then sleeps. A deadline ends
// every wait, in which pauses of the whole process do not count.
#pragma once
#include <chrono>

namespace plait::launch {

using Seconds = std::chrono::duration<double>;

// What a waiting rank does before it sleeps.
struct Patience {
  int spins = 0;
  int yields = 0;
};

// Being woken costs tens of microseconds when the core has gone idle, letting others run well under one; so a rank that
// has a core of its own yields for long. With more threads than cores too many yields would starve those that compute:
// 20 are enough to make a small message of 4 ranks on 2 cores eight times faster than sleeping at once.
// `threads`: of all ranks on this machine, which have so many cores together.
inline Patience patience_for(int threads, int cores) {
  return threads <= cores ? Patience{.spins = 200, .yields = 1000} : Patience{.yields = 20};
}

// When a wait has lasted too long. Who waits looks at it every half a second or more often; when it could not for long,
// the process stood still (stopped, in a debugger, on a machine that slept), as did those that it waits for: the wait
// begins anew.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr Seconds kPause{2}, kLongestNap{0.5};

  explicit Deadline(Seconds patience, Clock::time_point now = Clock::now())
      : patience_(patience), began_(now), looked_(now) {}

  bool passed(Clock::time_point now = Clock::now()) {
    if (now - looked_ > kPause) began_ = now;
    looked_ = now;
    return now - began_ > patience_;
  }

 private:
  Seconds patience_;
  Clock::time_point began_, looked_;
};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace plait::launch
