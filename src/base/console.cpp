#include "base/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "base/stop.h"

namespace plait {
namespace {

constexpr int kLook = 100, kLooks = 10;  // ms, and how many of them a process waits that was told to end

// A pipe that is ready takes as much as is written at once here without blocking.
bool ready() {
  for (int looks = 0; looks < kLooks;) {
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    const int found = poll(&output, 1, kLook);
    if (found > 0) return (output.revents & POLLOUT) != 0 || (output.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
    if (stop::requested()) ++looks;
  }
  return false;
}

}  // namespace

void say_text(std::string_view text) {
  std::fflush(stdout);
  while (!text.empty() && ready()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return;
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  }
}

}  // namespace plait
