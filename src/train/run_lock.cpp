#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <random>

#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"

namespace plait {
namespace {

constexpr const char* kFile = "/run.lock";

std::string machine_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::string content_of(const std::string& path) try { return read_text(path); } catch (const InputError&) {
  return {};
}

// Nothing for a line that is none of ours, or half of one.
std::optional<JsonObject> holder_in(const std::string& text, const std::string& path) try {
  JsonObject holder = JsonObject::parse(text, path);
  for (const char* key : {"machine", "since", "token"}) holder.text(key);
  holder.integer("process");
  return holder;
} catch (const InputError&) {
  return {};
}

[[noreturn]] void refuse(const std::string& dir, const std::string& text) {
  const auto holder = holder_in(text, dir + kFile);
  const std::string who = holder ? fmt::format("process {} on {}, since {}", holder->integer("process"),
                                               holder->text("machine"), holder->text("since"))
                                 : "another run";
  input_error("log.dir: '{}' is in use by {}: wait for its end, or choose another log.dir", dir, who);
}

// Whether the kernel gave the lock; where the file system has none, it says so.
enum class Taken { yes, by_another, no_locks };

Taken lock_file(int handle) {
  if (flock(handle, LOCK_EX | LOCK_NB) == 0) return Taken::yes;
  return errno == EWOULDBLOCK ? Taken::by_another : Taken::no_locks;
}

}  // namespace

RunLock::RunLock(const std::string& dir, const Tell& tell, LockRules rules)
    : rules_(std::move(rules)), path_(dir + kFile), token_(random_word()), since_(time_text()) {
  if (rules_.machine.empty()) rules_.machine = machine_name();
  std::error_code failure;
  std::filesystem::create_directories(dir, failure);
  if (failure) input_error("log.dir: cannot make the folder '{}': {}", dir, failure.message());
  try {
    take(dir, tell);
  } catch (...) {
    if (handle_ >= 0) ::close(handle_);
    throw;
  }
  thread_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (holds_file()) ::unlink(path_.c_str());
  ::close(handle_);
}

// The file at the path is still the one that this process opened: nobody has removed it meanwhile.
bool RunLock::holds_file() const {
  struct stat mine = {}, there = {};
  return fstat(handle_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino &&
         mine.st_dev == there.st_dev;
}

std::string RunLock::line() const {
  return JsonLine{}
             .add("machine", rules_.machine)
             .add("process", static_cast<int64_t>(getpid()))
             .add("since", since_)
             .add("token", token_)
             .add("beat", beats_)
             .str() +
         "\n";
}

void RunLock::write_line() {
  const std::string text = line();
  if (::ftruncate(handle_, 0) != 0 || ::pwrite(handle_, text.data(), text.size(), 0) < 0)
    input_error("log.dir: cannot write '{}': {}", path_, std::strerror(errno));
  ::fdatasync(handle_);
}

void RunLock::take(const std::string& dir, const Tell& tell) {
  const auto open_file = [&] {
    handle_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (handle_ < 0) input_error("log.dir: cannot write '{}': {}", path_, std::strerror(errno));
  };
  Taken taken = Taken::no_locks;
  for (open_file(); rules_.locks == LockRules::Locks::of_the_file_system; open_file()) {
    taken = lock_file(handle_);
    if (taken == Taken::by_another) refuse(dir, content_of(path_));
    if (taken == Taken::no_locks || holds_file()) break;
    ::close(handle_);  // its holder ended between the two calls, and took the file with it
  }
  const std::string before = content_of(path_);
  const auto holder = holder_in(before, path_);
  const bool here = holder && holder->text("machine") == rules_.machine && taken == Taken::yes;
  if (holder && !here) {  // its locks may not be seen here: a holder that lives changes its line
    const auto patience = rules_.beat * rules_.missed;
    if (tell)
      tell(fmt::format("{}: left by process {} on {}; looking for {:.0f} s whether it lives", path_,
                       holder->integer("process"), holder->text("machine"), patience.count()));
    for (int i = 0; i < 2 * rules_.missed; ++i) {
      std::this_thread::sleep_for(rules_.beat / 2);
      if (const std::string now = content_of(path_); now != before) refuse(dir, now);
    }
  }
  if (holder && tell)
    tell(fmt::format("{}: process {} on {}, since {}, has ended without removing it: taken over", path_,
                     holder->integer("process"), holder->text("machine"), holder->text("since")));
  write_line();
  if (taken == Taken::yes) return;
  std::this_thread::sleep_for(rules_.beat / 5);  // of two that take it at once the later line stands
  if (const std::string now = content_of(path_); now != line()) refuse(dir, now);
}

void RunLock::beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, rules_.beat, [&] { return ending_; })) {
    ++beats_;
    const std::string text = line();  // never shorter than the one before
    if (::pwrite(handle_, text.data(), text.size(), 0) >= 0) ::fdatasync(handle_);
  }
}

void RunLock::expect_free(const std::string& dir) {
  const std::string path = dir + kFile;
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle < 0) return;
  const Taken taken = lock_file(handle);
  ::close(handle);
  if (taken == Taken::by_another) refuse(dir, content_of(path));
}

std::string RunLock::token_in(const std::string& dir) {
  const auto holder = holder_in(content_of(dir + kFile), dir + kFile);
  return holder ? holder->text("token") : "";
}

}  // namespace plait
