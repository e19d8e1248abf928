#include "wire/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace plait::wire {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

void futex(const std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* longest) {
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, longest, nullptr, 0);
}

}  // namespace

void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec relative{.tv_sec = seconds.count(), .tv_nsec = (longest - seconds).count()};
  futex(word, FUTEX_WAIT, seen, &relative);
}

void wake_all(const std::atomic<uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace plait::wire
