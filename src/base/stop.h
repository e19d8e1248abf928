// The wish that this process ends: of a person, a scheduler, a launcher, or whoever closed the pipe that it writes to.
// Kept for the process, as signals are; whoever does something long looks at it.
#pragma once
#include <atomic>
#include <stdexcept>
#include <string_view>

namespace plait::stop {

// Thrown where something long is left whose end nobody waits for any more. Nothing was lost by it.
struct Stopped : std::runtime_error {
  explicit Stopped(int signal);
  int signal;
};

// What can be noted; else another signal ends the process as it always does.
inline constexpr int kSignals = 5;
extern const int signals[kSignals];                         // SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGPIPE
std::string_view name(int signal);                          // "SIGTERM"
constexpr int code_of(int signal) { return 128 + signal; }  // what a shell tells of a process that ended by it

// While it lives, a signal of the list is noted, and a second one ends the process at once with its code; but for
// SIGPIPE, which every further line brings again. Under a launcher signals within a second count as one: a scheduler
// may tell a rank and its launcher, which passes it on.
class Signals {
 public:
  enum class Repeats { end_at_once, end_after_a_second };
  explicit Signals(Repeats repeats);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Whether there is one: somebody looks at what is noted.
  static bool noted();
};

// The first signal since the program began, or since the last `forget`; 0: none.
int requested();
void request(int signal);
void forget();

// Throws Stopped where the process was told to end and this thread is Leaving; costs a look at an atomic.
void point();

// What this thread does while it lives may be left in the middle: nothing is lost by it.
class Leaving {
 public:
  Leaving();
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;
};

}  // namespace plait::stop
