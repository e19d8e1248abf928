// How a rank waits: it looks again for a while, then lets other threads run between looks, then sleeps. A deadline ends
// every wait.
#pragma once
#include <chrono>
#include <thread>

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
// `threads`: of all ranks on this machine.
inline Patience patience_for(int threads) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return threads <= cores ? Patience{.spins = 200, .yields = 1000} : Patience{.yields = 20};
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace plait::launch
