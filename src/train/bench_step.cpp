#include "train/bench_step.h"

#include <algorithm>
#include <chrono>
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

// Time by step of the schedule, over one training step.
class Profile {
 public:
  explicit Profile(const Schedule& schedule) : schedule_(schedule), ms_(schedule.steps.size()) {}

  void clear() { std::fill(ms_.begin(), ms_.end(), 0); }
  void add(const Span& span) { ms_[span.step] += ms(span.end - span.begin); }

  std::map<std::string, KindTime> by_kind() const {
    std::map<std::string, KindTime> kinds;
    for (size_t i = 0; i < ms_.size(); ++i) {
      const std::string kind = kind_of(schedule_, schedule_.steps[i]);
      KindTime& time = kinds[kind];
      time.kind = kind;
      ++time.steps;
      time.ms += ms_[i];
    }
    return kinds;
  }

 private:
  const Schedule& schedule_;
  std::vector<double> ms_;
};

// What the ranks find out together.
struct Shared {
  std::mutex mutex;
  StepBench bench;
  std::map<std::string, KindTime> kinds;
};

class BenchRank {
 public:
  BenchRank(const Config& config, const data::Corpus& corpus, RankContext context)
      : trainer_(config, run_shape(config), corpus, context, {kept(config)}),
        world_(context.world->group(context.rank, everyone(context.world->size()))),
        profile_(trainer_.executor().schedule()),
        lr_(config.optim.lr) {
    for (int i = 0; i < kWarmUp; ++i) trainer_.step(step_++, lr_);
    trainer_.observe([this](const Span& span) { profile_.add(span); });
    products_.emplace(trainer_.executor(), context);
    products_->choose(kTries);
  }

  void run(int64_t repeats) {
    for (int64_t i = 0; i < repeats; ++i) {
      profile_.clear();
      step_ms_.push_back(together([this] { trainer_.step(step_++, lr_); }));
      if (step_ms_.back() == *std::min_element(step_ms_.begin(), step_ms_.end())) kinds_ = profile_.by_kind();
      products_ms_.push_back(together([this] { products_->run(); }));
    }
  }

  void tell(Shared& shared) {
    const std::lock_guard lock(shared.mutex);
    const double ranks = world_->size();
    shared.bench.product_flops += products_->flops();
    shared.bench.own_share += products_->of_own() / ranks;
    for (const auto& [kind, time] : kinds_) {
      KindTime& sum = shared.kinds[kind];
      sum = {kind, time.steps, sum.ms + time.ms / ranks};
    }
    if (world_->rank() != 0) return;
    std::sort(step_ms_.begin(), step_ms_.end());
    std::sort(products_ms_.begin(), products_ms_.end());
    shared.bench.step_ms = step_ms_.front();
    shared.bench.products_ms = products_ms_.front();
    shared.bench.step_median_ms = step_ms_[step_ms_.size() / 2];
    shared.bench.products_median_ms = products_ms_[products_ms_.size() / 2];
  }

 private:
  static std::vector<int> everyone(int ranks) {
    std::vector<int> all(ranks);
    for (int r = 0; r < ranks; ++r) all[r] = r;
    return all;
  }

  static std::vector<ValueId> kept(const Config& config) {
    const RunShape shape = run_shape(config);
    return product_tables(build_step(shape.mesh, shape.sizes, shape.optimizer, shape.num_micro).schedule);
  }

  // Milliseconds from when all ranks begin until all have ended.
  double together(const std::function<void()>& work) {
    world_->barrier();
    const auto begin = Clock::now();
    work();
    world_->barrier();
    return ms(Clock::now() - begin);
  }

  Trainer trainer_;
  std::shared_ptr<wire::Group> world_;
  Profile profile_;
  std::optional<StepProducts> products_;
  double lr_;
  int64_t step_ = 0;
  std::vector<double> step_ms_, products_ms_;
  std::map<std::string, KindTime> kinds_;
};

}  // namespace

StepBench bench_step(const Config& config, int64_t repeats) {
  const data::Corpus corpus = random_corpus(config);
  Shared shared;
  wire::run_ranks(local_options(config), [&](int rank, wire::World& world) {
    BenchRank bench(config, corpus, {rank, &world, dtype_of(config)});
    bench.run(repeats);
    bench.tell(shared);
  });
  for (const auto& [kind, time] : shared.kinds) shared.bench.kinds.push_back(time);
  std::sort(shared.bench.kinds.begin(), shared.bench.kinds.end(),
            [](const KindTime& a, const KindTime& b) { return a.ms > b.ms; });
  return shared.bench;
}

}  // namespace plait
