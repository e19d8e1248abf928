#include "train/bench_step.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

#include "base/random.h"
#include "train/bench_products.h"
#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {
namespace {

constexpr int kWarmUp = 2, kTries = 3;

using Clock = std::chrono::steady_clock;
double ms(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

// Processor time of the calling thread.
double cpu_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

data::Corpus random_corpus(const Config& config) {
  const auto ids = static_cast<uint64_t>(std::min<int64_t>(256, config.model.vocab_size));
  data::Corpus corpus;
  corpus.num_training = 64 * config.train.batch_size * config.train.seq_length;
  const uint64_t key = random_key(static_cast<uint64_t>(config.train.seed), "bench");
  for (int64_t i = 0; i < corpus.num_training; ++i)
    corpus.tokens.push_back(static_cast<uint8_t>(uniform_below(key, i, ids)));
  return corpus;
}

std::string kind_of(const Schedule& s, const Step& step) {
  if (as<Einsum>(step.op)) return step.in.size() == 3 ? "einsum, experts" : "einsum, dense";
  return s.title(step);
}

std::string name_of(const Schedule& s, const Step& step) { return kind_of(s, step) + " -> %" + s.names[step.out[0]]; }

// Time by step of the schedule, over one training step.
class Profile {
 public:
  explicit Profile(const Schedule& schedule) : schedule_(schedule), ms_(schedule.steps.size()), cpu_(ms_) {}

  void start() {
    std::fill(ms_.begin(), ms_.end(), 0);
    std::fill(cpu_.begin(), cpu_.end(), 0);
    last_cpu_ = cpu_ms();
  }

  void add(const Span& span) {
    ms_[span.step] += ms(span.end - span.begin);
    const double now = cpu_ms();
    cpu_[span.step] += now - last_cpu_;
    last_cpu_ = now;
  }

  using Name = std::string (*)(const Schedule&, const Step&);
  std::map<std::string, KindTime> by(Name name) const {
    std::map<std::string, KindTime> kinds;
    for (size_t i = 0; i < ms_.size(); ++i) {
      const std::string kind = name(schedule_, schedule_.steps[i]);
      KindTime& time = kinds[kind];
      time.kind = kind;
      ++time.steps;
      time.ms += ms_[i];
      time.cpu_ms += cpu_[i];
    }
    return kinds;
  }

 private:
  const Schedule& schedule_;
  std::vector<double> ms_, cpu_;  // by step
  double last_cpu_ = 0;
};

void add_mean(std::map<std::string, KindTime>& sums, const std::map<std::string, KindTime>& times, double ranks) {
  for (const auto& [name, time] : times) {
    KindTime& sum = sums[name];
    sum = {name, time.steps, sum.ms + time.ms / ranks, sum.cpu_ms + time.cpu_ms / ranks};
  }
}

std::vector<KindTime> longest_first(const std::map<std::string, KindTime>& times) {
  std::vector<KindTime> sorted;
  for (const auto& [name, time] : times) sorted.push_back(time);
  std::sort(sorted.begin(), sorted.end(), [](const KindTime& a, const KindTime& b) { return a.ms > b.ms; });
  return sorted;
}

struct Timing {
  Clock::time_point begin, end;
  double cpu;  // of the thread that measured
};

// The repeats of one thing.
class Timings {
 public:
  void add(const Timing& t) { all_.push_back(t); }

  // From the first rank's begin to the last one's end; the processor time stays this rank's.
  void merge(const Timings& other) {
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].begin = std::min(all_[i].begin, other.all_[i].begin);
      all_[i].end = std::max(all_[i].end, other.all_[i].end);
    }
  }

  double least() const {
    return sorted([](const Timing& t) { return ms(t.end - t.begin); }).front();
  }
  double median() const {
    return sorted([](const Timing& t) { return ms(t.end - t.begin); })[all_.size() / 2];
  }
  double least_cpu() const {
    return sorted([](const Timing& t) { return t.cpu; }).front();
  }
  bool last_is_fastest() const { return ms(all_.back().end - all_.back().begin) <= least(); }

 private:
  std::vector<double> sorted(double (*value)(const Timing&)) const {
    std::vector<double> values;
    for (const Timing& t : all_) values.push_back(value(t));
    std::sort(values.begin(), values.end());
    return values;
  }

  std::vector<Timing> all_;
};

// What the ranks find out together.
struct Shared {
  std::mutex mutex;
  StepBench bench;
  std::map<std::string, KindTime> kinds, steps;
  std::vector<std::pair<Timings, Timings>> timings;  // by rank: step, products
};

class BenchRank {
 public:
  BenchRank(const Config& config, const data::Corpus& corpus, RankContext context)
      : trainer_(config, run_shape(config), corpus, context, {kept(config)}),
        world_(context.world->group(context.rank, everyone(context.world->size()))),
        profile_(trainer_.executor().schedule()),
        lr_(config.optim.lr) {
    for (int i = 0; i < kWarmUp; ++i) trainer_.step(next_step_++, lr_);
    trainer_.observe([this](const Span& span) { profile_.add(span); });
    products_.emplace(trainer_.executor(), context);
    products_->choose(kTries);
  }

  void run(int64_t repeats) {
    for (int64_t i = 0; i < repeats; ++i) {
      profile_.start();
      step_.add(together([this] { trainer_.step(next_step_++, lr_); }));
      if (step_.last_is_fastest()) {
        kinds_ = profile_.by(kind_of);
        steps_ = profile_.by(name_of);
      }
      products_time_.add(together([this] { products_->run(); }));
    }
  }

  void tell(Shared& shared) {
    const std::lock_guard lock(shared.mutex);
    const double ranks = world_->size();
    shared.bench.product_flops += products_->flops();
    shared.bench.own_share += products_->of_own() / ranks;
    add_mean(shared.kinds, kinds_, ranks);
    add_mean(shared.steps, steps_, ranks);
    shared.timings[world_->rank()] = {step_, products_time_};
  }

 private:
  static std::vector<int> everyone(int ranks) {
    std::vector<int> all(ranks);
    for (int r = 0; r < ranks; ++r) all[r] = r;
    return all;
  }

  static std::vector<ValueId> kept(const Config& config) {
    return product_tables(build_step(run_shape(config)).schedule);
  }

  Timing together(const std::function<void()>& work) {
    world_->barrier();
    Timing t{Clock::now(), {}, cpu_ms()};
    work();
    t.end = Clock::now();
    t.cpu = cpu_ms() - t.cpu;
    return t;
  }

  Trainer trainer_;
  std::shared_ptr<wire::Group> world_;
  Profile profile_;
  std::optional<StepProducts> products_;
  double lr_;
  int64_t next_step_ = 0;
  Timings step_, products_time_;
  std::map<std::string, KindTime> kinds_, steps_;
};

void add_timings(StepBench& b, std::vector<std::pair<Timings, Timings>> by_rank) {
  auto& [step, products] = by_rank.front();
  for (const auto& [their_step, their_products] : by_rank) {
    step.merge(their_step);
    products.merge(their_products);
  }
  b.step_ms = step.least();
  b.step_median_ms = step.median();
  b.step_cpu_ms = step.least_cpu();
  b.products_ms = products.least();
  b.products_median_ms = products.median();
  b.products_cpu_ms = products.least_cpu();
}

}  // namespace

StepBench bench_step(const Config& config, int64_t repeats) {
  const data::Corpus corpus = random_corpus(config);
  Shared shared;
  shared.timings.resize(num_ranks(config));
  wire::run_ranks(local_options(config), [&](int rank, wire::World& world) {
    BenchRank bench(config, corpus, {rank, &world, dtype_of(config)});
    bench.run(repeats);
    bench.tell(shared);
  });
  add_timings(shared.bench, std::move(shared.timings));
  shared.bench.kinds = longest_first(shared.kinds);
  shared.bench.steps = longest_first(shared.steps);
  return shared.bench;
}

}  // namespace plait
