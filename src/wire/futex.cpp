#include "wire/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace plait::wire {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

struct Call {
  int operation;
  Reach reach;
  uint32_t value;
};

void futex(const std::atomic<uint32_t>& word, const Call& call, const timespec* longest) {
  const int flags = call.reach == Reach::process ? FUTEX_PRIVATE_FLAG : 0;
  syscall(SYS_futex, &word, call.operation | flags, call.value, longest, nullptr, 0);
}

}  // namespace

void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds longest, Reach reach) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec relative{.tv_sec = seconds.count(), .tv_nsec = (longest - seconds).count()};
  futex(word, {FUTEX_WAIT, reach, seen}, &relative);
}

void wake_all(const std::atomic<uint32_t>& word, Reach reach) { futex(word, {FUTEX_WAKE, reach, INT_MAX}, nullptr); }

}  // namespace plait::wire
