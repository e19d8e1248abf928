// The control groups that this process is in, v1 and v2: its own and those above it, as folders.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace plait::launch {

struct Cgroup {
  std::string folder;  // "/sys/fs/cgroup/memory/job"
  bool unified;        // v2, where files have other names
};

// Those in which a controller ("memory", "pids", "cpu") may have a limit, the innermost first. `root` stands before
// every path that is read, and before none that is returned.
std::vector<Cgroup> cgroups(const std::string& root, std::string_view controller);

}  // namespace plait::launch
