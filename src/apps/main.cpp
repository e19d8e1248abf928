#include <cstdio>
#include <string>
#include <vector>

#include "apps/apps.h"
#include "launch/launch.h"

int main(int argc, char** argv) {
  // Of several processes that a launcher started the first one speaks.
  if (!plait::this_launch().first() && !std::freopen("/dev/null", "w", stdout)) return 1;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return plait::run_verb(arguments);
}
