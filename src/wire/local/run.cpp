#include "wire/local/run.h"

#include <ATen/Parallel.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "base/stop.h"
#include "wire/local/world.h"

namespace plait::wire {
namespace {

struct Failure {
  int rank;
  std::exception_ptr what;
  bool consequence;    // of another rank's failure
  std::string report;  // what all ranks were doing then
};

// What the ranks' threads share with the caller; a thread left behind keeps it alive.
class Crew {
 public:
  Crew(const RankOptions& options, RankBody body) : world_(options), timeout_(options.timeout), body_(std::move(body)) {
    for (int rank = 0; rank < options.ranks; ++rank) running_.insert(rank);
  }

  void run(int rank, int threads) {
    RankBoard& board = world_.board(rank);
    try {
      at::set_num_threads(threads);
      body_(rank, world_);
      board.state = RankBoard::State::ended;
    } catch (const Abandoned&) {
      note({.rank = rank, .what = std::current_exception(), .consequence = true});
    } catch (const std::exception& error) {
      board.failure.set(error.what());
      board.state = RankBoard::State::failed;
      note({.rank = rank, .what = std::current_exception(), .consequence = false});
    } catch (...) {
      note({.rank = rank, .what = std::current_exception(), .consequence = false});
    }
    leave(rank);
  }

  // The system has no thread for the ranks from this one on.
  void without_threads(int first, const std::string& why) {
    const auto refusal = std::make_exception_ptr(InputError(
        fmt::format("the system started {} of the {} threads of ranks ({}): run fewer ranks in one process, or raise "
                    "its limits of threads and memory",
                    first, world_.size(), why)));
    note({.rank = first, .what = refusal, .consequence = false});
    for (int rank = first; rank < world_.size(); ++rank) leave(rank);
  }

  // The ranks that did not come back in time after a failure.
  std::set<int> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_.empty() || failure_; });
    changed_.wait_for(lock, timeout_, [&] { return running_.empty(); });
    return running_;
  }

  void rethrow(const std::set<int>& lost) const {
    const std::lock_guard lock(mutex_);
    if (!failure_) return;
    std::string tail;
    for (const int rank : lost) tail += fmt::format("; {} has not ended", world_.name(rank));
    try {
      std::rethrow_exception(failure_->what);
    } catch (const InputError&) {
      throw;
    } catch (const stop::Stopped&) {
      throw;
    } catch (const std::exception& error) {
      throw RankFailure(failure_->rank, fmt::format("{}: {}{}", world_.name(failure_->rank), error.what(), tail),
                        failure_->report);
    } catch (...) {
      throw RankFailure(failure_->rank, fmt::format("{}: unknown failure{}", world_.name(failure_->rank), tail),
                        failure_->report);
    }
  }

 private:
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    running_.erase(rank);
    changed_.notify_all();
  }

  void note(Failure failure) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_ || (failure_->consequence && !failure.consequence)) {
        failure.report = world_.report();
        failure_ = std::move(failure);
      }
    }
    changed_.notify_all();
    world_.fail();
  }

  LocalWorld world_;
  Seconds timeout_;
  RankBody body_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> running_;
  std::optional<Failure> failure_;
};

}  // namespace

namespace {

// One a rank; fewer where the system refuses.
std::vector<std::thread> start(const std::shared_ptr<Crew>& crew, const RankOptions& options) {
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) < options.ranks)
      threads.emplace_back(
          [crew, rank = static_cast<int>(threads.size()), n = options.threads] { crew->run(rank, n); });
  } catch (const std::system_error& error) {
    crew->without_threads(static_cast<int>(threads.size()), error.code().message());
  }
  return threads;
}

}  // namespace

void run_threads(const RankOptions& options, RankBody body) {
  const auto crew = std::make_shared<Crew>(options, std::move(body));
  const int own_threads = at::get_num_threads();
  std::vector<std::thread> threads = start(crew, options);
  const auto lost = crew->wait();
  for (int rank = 0; rank < static_cast<int>(threads.size()); ++rank)
    lost.contains(rank) ? threads[rank].detach() : threads[rank].join();
  at::set_num_threads(own_threads);  // a rank's number of threads becomes the default of later threads
  crew->rethrow(lost);
}

}  // namespace plait::wire
