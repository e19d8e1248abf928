#include <string>
#include <vector>

#include "apps/apps.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return plait::run_verb(arguments);
}
