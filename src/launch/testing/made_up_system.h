// For tests: the files by which a system tells what it has and allows, as somebody would like them.
#pragma once
#include "base/testing/scratch_folder.h"

namespace plait::launch {

class MadeUpSystem {
 public:
  // A machine of 8 processors and 4 GiB, 1 GiB of them taken, where 200 threads run; no limits.
  MadeUpSystem() {
    put("/proc/meminfo",
        "MemTotal: 4194304 kB\nMemAvailable: 3145728 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nCommitLimit: 2097152 "
        "kB\nCommitted_AS: 1048576 kB\n");
    put("/proc/loadavg", "0.50 0.40 0.30 2/200 4321\n");
    put("/sys/devices/system/cpu/online", "0-7\n");
    status("0-7", 1000);
  }

  std::string root() const { return folder_.str(); }

  void put(const std::string& path, const std::string& text) const {
    const std::filesystem::path whole = root() + path;
    std::filesystem::create_directories(whole.parent_path());
    spill(whole, text);
  }

  // This process, whose parent is 7.
  void status(const std::string& processors, int user) const {
    put("/proc/self/status",
        fmt::format(
            "Name:\tplait\nPPid:\t7\nUid:\t{0}\t{0}\t{0}\t{0}\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\nThreads:"
            "\t4\nCapEff:\t0000000000000000\nCpus_allowed_list:\t{1}\n",
            user, processors));
  }

  // v2, this process in /job/run.
  void unified() const {
    put("/proc/self/cgroup", "0::/job/run\n");
    put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n");
  }

  // v1, this process in /job of each hierarchy.
  void by_controller() const {
    put("/proc/self/cgroup", "8:pids:/job\n4:memory:/job\n1:cpu,cpuacct:/job\n");
    put("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n");
  }

 private:
  ScratchFolder folder_;
};

}  // namespace plait::launch
