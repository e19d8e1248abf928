// Preloaded into a program, it numbers what the program asks of the disk for the checkpoints of one folder, and lets
// one of these acts go wrong:
//   PLAIT_DISK_FOLDER  the folder; acts on step-*, .step-* and latest* in it count
//   PLAIT_DISK_LOG     a file to which each act is added as a line: "NUMBER ACT NAME"
//   PLAIT_DISK_FAULT   "HOW NUMBER": kill (this process), killall (its process group), full, fail, readonly, slow,
//   hang,
//                      crawl
// From that number on (full, readonly, crawl), at it alone (kill, killall, fail, slow, hang).
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace {

template <class F>
F real(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

std::atomic<int> acts = 0;

std::string variable(const char* name) {
  const char* text = getenv(name);
  return text ? text : "";
}

std::string path_of(int handle) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
  const ssize_t n = readlink(link, path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "";
}

// Of a path within an open folder.
std::string path_in(int folder, const char* name) {
  return name[0] == '/' || folder == AT_FDCWD ? name : path_of(folder) + "/" + name;
}

// The name within the watched folder; empty: none of a checkpoint.
std::string watched(const std::string& path) {
  const std::string folder = variable("PLAIT_DISK_FOLDER");
  if (folder.empty() || !path.starts_with(folder + "/")) return {};
  const std::string name = path.substr(folder.size() + 1);
  return name.starts_with("step-") || name.starts_with(".step-") || name.starts_with("latest") ? name : "";
}

void note(int number, const char* act, const std::string& name) {
  const std::string log = variable("PLAIT_DISK_LOG");
  if (log.empty()) return;
  const int handle = real(&::open, "open")(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = std::to_string(number) + " " + act + " " + name + "\n";
  if (real(&::write, "write")(handle, line.data(), line.size()) < 0) abort();
  close(handle);
}

// 0, or what the act fails with.
enum class Space { taken, none };
int fault(const char* act, const std::string& path, Space space) {
  const std::string name = watched(path);
  if (name.empty()) return 0;
  const int number = ++acts;
  note(number, act, name);
  const std::string all = variable("PLAIT_DISK_FAULT");
  const size_t blank = all.find(' ');
  if (blank == std::string::npos) return 0;
  const std::string how = all.substr(0, blank);
  const int at = atoi(all.c_str() + blank);
  if (how == "full") return number >= at && space == Space::taken ? ENOSPC : 0;
  if (how == "readonly") return number >= at ? EROFS : 0;
  if (how == "crawl" && number >= at) usleep(100'000);
  if (number != at) return 0;
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "killall") kill(0, SIGKILL);
  if (how == "slow") usleep(1'500'000);
  if (how == "hang") sleep(3600);
  return how == "fail" ? EIO : 0;
}

bool failed(int code) {
  if (code) errno = code;
  return code != 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) && failed(fault("open", path, Space::taken))) return -1;
  return real(&::open, "open")(path, flags, mode);
}

ssize_t write(int handle, const void* bytes, size_t count) {
  if (failed(fault("write", path_of(handle), Space::taken))) return -1;
  return real(&::write, "write")(handle, bytes, count);
}

ssize_t pwrite(int handle, const void* bytes, size_t count, off_t offset) {
  if (failed(fault("write_at", path_of(handle), Space::taken))) return -1;
  return real(&::pwrite, "pwrite")(handle, bytes, count, offset);
}

int fsync(int handle) {
  return failed(fault("fsync", path_of(handle), Space::taken)) ? -1 : real(&::fsync, "fsync")(handle);
}

int rename(const char* from, const char* to) {
  return failed(fault("rename", from, Space::none)) ? -1 : real(&::rename, "rename")(from, to);
}

int mkdir(const char* path, mode_t mode) {
  return failed(fault("mkdir", path, Space::taken)) ? -1 : real(&::mkdir, "mkdir")(path, mode);
}

int remove(const char* path) {
  return failed(fault("remove", path, Space::none)) ? -1 : real(&::remove, "remove")(path);
}

int unlinkat(int folder, const char* name, int flags) {
  return failed(fault("remove", path_in(folder, name), Space::none))
             ? -1
             : real(&::unlinkat, "unlinkat")(folder, name, flags);
}

}  // extern "C"
