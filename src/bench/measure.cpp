#include "bench/measure.h"

#include <algorithm>

#include "base/random.h"
#include "run/profile.h"
#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {

data::Corpus bench_corpus(const Config& config) {
  const auto ids = static_cast<uint64_t>(std::min<int64_t>(256, config.model.vocab_size));
  data::Corpus corpus;
  corpus.num_training = 64 * config.train.batch_size * config.train.seq_length;
  const uint64_t key = random_key(static_cast<uint64_t>(config.train.seed), "bench");
  for (int64_t i = 0; i < corpus.num_training; ++i)
    corpus.tokens.push_back(static_cast<uint8_t>(uniform_below(key, i, ids)));
  return corpus;
}

const Timeline& RecordedSteps::fastest() const { return *std::ranges::min_element(steps, {}, &Timeline::makespan); }

RecordedSteps record_steps(const Planned& run, const StepRequest& request) {
  const Config& config = run.config;
  const data::Corpus corpus = bench_corpus(config);
  const RunShape shape = run_shape(run);
  Recording recording(build_step(shape).schedule);
  const auto steps = wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    std::vector<Timeline> performed;
    wire::SlowWorld slow(world, request.delay);
    RankContext context{rank, request.delay ? static_cast<wire::World*>(&slow) : &world, dtype_of(config)};
    Trainer trainer(config, shape, corpus, context);
    const auto all = wire::everyone(world, rank);
    trainer.observe(recording.observer(rank));
    for (int64_t step = 0; step < request.warm_up + request.steps; ++step) {
      recording.begin(rank);
      together(*all, [&] { trainer.step(step, config.optim.lr); });
      recording.share(rank, world);
      if (step >= request.warm_up) performed.push_back(recording.timeline());
      all->barrier();
    }
    return performed;
  });
  return {.schedule = recording.schedule(), .steps = steps};
}

}  // namespace plait
