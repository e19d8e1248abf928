#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/apps.h"
#include "launch/launch.h"

namespace {

// A standard stream that whoever started this has closed: else the next file that is opened would take its place.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", stream == 0 ? O_RDONLY : O_WRONLY);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  // Of several processes that a launcher started the first one speaks.
  if (!plait::this_launch().first() && !std::freopen("/dev/null", "w", stdout)) return 1;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return plait::run_verb(arguments);
}
