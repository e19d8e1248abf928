#include "bench/step.h"

#include <algorithm>
#include <mutex>

#include "bench/measure.h"
#include "bench/products.h"
#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {
namespace {

constexpr int kWarmUp = 2, kTries = 3;

// What the ranks find out together.
struct Shared {
  std::mutex mutex;
  StepBench bench;
  KindTimes kinds, steps;
  std::vector<std::pair<Timings, Timings>> timings;  // by rank: step, products
};

class BenchRank {
 public:
  BenchRank(const Planned& run, const data::Corpus& corpus, RankContext context)
      : trainer_(run.config, run_shape(run), corpus, context, {kept(run)}),
        world_(wire::everyone(*context.world, context.rank)),
        profile_(trainer_.executor().schedule()),
        lr_(run.config.optim.lr) {
    for (int i = 0; i < kWarmUp; ++i) trainer_.step(next_step_++, lr_);
    trainer_.observe([this](const Span& span) { profile_.add(span); });
    products_.emplace(trainer_.executor(), context);
    products_->choose(kTries);
  }

  void run(int64_t repeats) {
    for (int64_t i = 0; i < repeats; ++i) {
      profile_.start();
      step_.add(together(*world_, [this] { trainer_.step(next_step_++, lr_); }));
      if (step_.last_is_fastest()) {
        kinds_ = profile_.by(kind_of);
        steps_ = profile_.by(name_of);
      }
      products_time_.add(together(*world_, [this] { products_->run(); }));
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
  static std::vector<ValueId> kept(const Planned& run) { return product_tables(build_step(run_shape(run)).schedule); }

  Trainer trainer_;
  std::shared_ptr<wire::Group> world_;
  Profile profile_;
  std::optional<StepProducts> products_;
  double lr_;
  int64_t next_step_ = 0;
  Timings step_, products_time_;
  KindTimes kinds_, steps_;
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

StepBench bench_step(const Planned& run, int64_t repeats) {
  const Config& config = run.config;
  const data::Corpus corpus = bench_corpus(config);
  Shared shared;
  shared.timings.resize(num_ranks(config));
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    BenchRank bench(run, corpus, {rank, &world, dtype_of(config)});
    bench.run(repeats);
    bench.tell(shared);
  });
  add_timings(shared.bench, std::move(shared.timings));
  shared.bench.kinds = longest_first(shared.kinds);
  shared.bench.steps = longest_first(shared.steps);
  return shared.bench;
}

}  // namespace plait
