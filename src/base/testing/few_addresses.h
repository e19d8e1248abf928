// For tests: what becomes of an act in a process that may map only so many bytes more. A thread takes 8 MiB of them.
#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace plait {

// Its exit code: what the act returns; 100 where it throws, 128 and the signal where one ends it.
template <class Act>
int code_with_addresses(int64_t bytes_more, const Act& act) {
  const pid_t child = fork();
  if (child == 0) {
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit few{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes_more), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &few);
    try {
      _exit(act());
    } catch (...) {
      _exit(100);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace plait
