// One run a folder: who holds it, since when, and whether a holder is still there. The file DIR/run.lock holds one line
// about its holder, with a beat that the holder changes every few seconds; it is gone with the holder's end. Where the
// file system has locks (flock), a second run is refused at once and the file of a killed one is taken at once. A
// holder on another machine whose locks are not seen here is recognised by its beat.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace plait {

struct LockRules {
  std::chrono::duration<double> beat{5};  // between changes of the line
  int missed = 4;                         // beats after which a holder is taken as gone
  enum class Locks { of_the_file_system, none } locks = Locks::of_the_file_system;
  std::string machine;  // this one's name; empty: as the system tells
};

class RunLock {
 public:
  using Tell = std::function<void(const std::string&)>;

  // Makes the folder and takes it, or throws InputError, one line that names the holder: "runs/a is in use: plait train
  // on node7, process 4711, since 2026-03-01 14:02:11". `tell`: a line where it waits for a beat or takes what a dead
  // holder left.
  explicit RunLock(const std::string& dir, const Tell& tell = {}, LockRules rules = {});
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // A word that no other holder has, which stands in the file: whoever reads it there sees the same folder.
  const std::string& token() const { return token_; }

  // Throws as the constructor would, as far as a look tells; takes nothing.
  static void expect_free(const std::string& dir);

  // The token in a folder's file; empty: none.
  static std::string token_in(const std::string& dir);

 private:
  void take(const std::string& dir, const Tell& tell);
  bool holds_file() const;
  std::string line() const;
  void write_line();
  void beat();

  LockRules rules_;
  std::string path_, token_, since_;
  int handle_ = -1;
  int64_t beats_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace plait
