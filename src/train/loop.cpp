#include "train/loop.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/errors.h"
#include "base/files.h"
#include "base/statistics.h"
#include "draw/curve.h"
#include "launch/board.h"
#include "plan/flops.h"
#include "run/recording.h"
#include "train/agreement.h"
#include "train/lr.h"
#include "train/metrics.h"

namespace plait {
namespace {

constexpr int kKeptCheckpoints = 2;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What rank 0 alone writes.
class Journal {
 public:
  Journal(const Config& config, int64_t last_step) : config_(config), metrics_(path("metrics.jsonl"), last_step) {
    std::ofstream(path("config.toml")) << to_toml(config);
  }

  void add(const StepReport& r) {
    JsonLine line;
    line.add("step", r.step)
        .add("loss", r.result.nll)
        .add("aux_loss", r.result.aux)
        .add("grad_norm", r.result.grad_norm)
        .add("lr", r.lr);
    line.add("ms", r.ms).add("tokens_per_s", r.tokens_per_s).add("gflops", r.gflops);
    if (!r.result.layers.empty()) {
      line.add("busiest", r.result.busiest).add("dropped", r.result.dropped).add("layers", lines(r.result.layers));
    }
    if (r.result.loss_scale > 0) line.add("loss_scale", r.result.loss_scale).add("skipped", r.result.skipped ? 1 : 0);
    if (r.val_loss) line.add("val_loss", *r.val_loss);
    metrics_.add(line);
  }

  static std::vector<JsonLine> lines(const std::vector<LayerLoad>& layers) {
    std::vector<JsonLine> all;
    for (const LayerLoad& l : layers)
      all.push_back(JsonLine{}
                        .add("layer", l.layer)
                        .add("share", l.share)
                        .add("busiest", l.busiest)
                        .add("dropped", l.dropped)
                        .add("dead", l.dead));
    return all;
  }

  void draw() const {
    Curve curve{.title = std::filesystem::path(config_.log.dir).filename().string()};
    curve.train = read_metric(path("metrics.jsonl"), "loss");
    curve.validation = read_metric(path("metrics.jsonl"), "val_loss");
    std::ofstream(path("loss.svg")) << draw_curve(curve);
  }

 private:
  std::string path(const char* file) const { return config_.log.dir + "/" + file; }
  const Config& config_;
  MetricsFile metrics_;
};

// One rank's walk through the run.
class Walk {
 public:
  Walk(const Planned& run, const data::Corpus& corpus, const RunObserver& observer, RankContext context,
       Recording* recording)
      : run_(run),
        config_(run.config),
        observer_(observer),
        context_(context),
        rank_(context.rank),
        recording_(recording),
        trainer_(config_, run_shape(run), corpus, context, kept(run, observer)),
        world_(wire::everyone(*context.world, context.rank)),
        rate_{config_.optim.lr, config_.optim.min_lr, config_.optim.warmup_steps, config_.train.steps},
        flops_(total_flops(trainer_.schedule().schedule)) {
    if (observer_.memory) rows_.emplace(trainer_.executor(), context_);
    if (observer_.explanation) watch_.emplace(trainer_.schedule().schedule);
    observe();
  }

  RunReport run(const std::atomic<bool>& stop) {
    resume();
    if (rank_ == 0) journal_.emplace(config_, report_.first_step);
    start_ = Clock::now();
    for (int64_t step = report_.first_step; step < config_.train.steps && !report_.interrupted; ++step) one(step, stop);
    if (report_.last_step > saved_) save();
    if (watch_ && watch_->runs() > 0) tell_seconds();
    report_.seconds = seconds_since(start_);
    const double steps = static_cast<double>(report_.last_step - report_.first_step);
    report_.tokens_per_s = steps * tokens() / std::max(report_.seconds, 1e-9);
    return report_;
  }

 private:
  static Keep kept(const Planned& run, const RunObserver& observer) {
    if (!observer.memory) return {};
    return {RowWatch::tables(build_step(run_shape(run)).schedule)};
  }

  // Who looks at the steps: the trace, and the memory until it is told.
  void observe() {
    if (!recording_ && !rows_ && !watch_) return trainer_.observe({});
    trainer_.observe([this, record = recording_ ? recording_->observer(rank_) : Observer{}](const Span& span) {
      if (rows_) rows_->note(span);
      if (watch_) watch_->note(span);
      if (record) record(span);
    });
  }

  void tell_memory() {
    const MemoryComparison memory = compare_memory(trainer_.executor(), *rows_, context_);
    rows_.reset();
    observe();
    if (rank_ == 0) observer_.memory(memory);
  }

  void tell_seconds() {
    const Schedule& schedule = trainer_.schedule().schedule;
    Explanation told =
        explain(explain(schedule, run_.machine, run_shape(run_).lanes), schedule, watch_->medians(), *world_);
    told.measured = median(step_seconds_);
    if (rank_ == 0) observer_.explanation(told);
  }

  // A step whose seconds count; the first ones of a run warm up.
  void watched(int64_t step, double seconds) {
    if (!watch_ || step - report_.first_step < std::min<int64_t>(2, config_.train.steps - report_.first_step - 1))
      return;
    watch_->end();
    step_seconds_.push_back(seconds);
  }

  double tokens() const { return static_cast<double>(config_.train.batch_size * config_.train.seq_length); }

  void resume() {
    const auto folder = find_latest(config_.log.dir);
    if (!folder) return;
    const Checkpoint checkpoint(*folder);
    trainer_.load(checkpoint);
    report_.first_step = report_.last_step = saved_ = checkpoint.step();
    report_.checkpoint = *folder;
    if (rank_ == 0 && observer_.resumed) observer_.resumed(checkpoint.step());
  }

  void one(int64_t step, const std::atomic<bool>& stop) {
    const auto begin = Clock::now();
    StepReport r{.step = step + 1, .steps = config_.train.steps, .lr = rate_.at(step)};
    if (recording_) recording_->begin(rank_);
    context_.world->board(rank_).where.set(fmt::format("training step {}", step + 1));
    if (watch_) watch_->begin();
    try {
      r.result = trainer_.step(step, r.lr);
      expects_finite(r.result);
    } catch (const NotFinite& e) {
      throw StepFault(fmt::format("training step {}: {}; {}", step + 1, e.what(), what_helps()));
    } catch (const StepFault& e) {
      throw StepFault(fmt::format("training step {}: {}", step + 1, e.what()));
    }
    r.ms = 1e3 * seconds_since(begin);
    watched(step, 1e-3 * r.ms);
    r.tokens_per_s = 1e3 * tokens() / r.ms;
    r.gflops = flops_ / r.ms / 1e6;
    if (rows_) tell_memory();
    report_.last_step = step + 1;
    report_.interrupted = agree(stop.load());
    const bool last = step + 1 == config_.train.steps;
    if (config_.train.eval_every > 0 && ((step + 1) % config_.train.eval_every == 0 || last))
      r.val_loss = report_.val_loss = trainer_.evaluate();
    r.seconds_left = seconds_since(start_) / static_cast<double>(step + 1 - report_.first_step) *
                     static_cast<double>(config_.train.steps - step - 1);
    tell(r);
    if (config_.train.save_every > 0 && (step + 1) % config_.train.save_every == 0) save();
  }

  // Loss and norm are the same on all ranks, so all end here together, and nothing is saved after it.
  void expects_finite(const StepResult& r) const {
    const std::pair<const char*, double> values[] = {
        {"loss", r.nll}, {"auxiliary loss", r.aux}, {"gradient norm", r.skipped ? 0 : r.grad_norm}};
    for (const auto& [what, value] : values)
      if (!std::isfinite(value))
        throw NotFinite(fmt::format("the {} is {}", what, std::isnan(value) ? "nan" : "infinite"));
  }

  std::string what_helps() const {
    const bool saved = !report_.checkpoint.empty();
    return fmt::format(
        "{} with a lower optim.lr, or see where it begins, {}, with `plait verify {}/config.toml --replay`",
        saved ? "the last checkpoint is as it was: resume from it" : "there is no checkpoint yet: begin anew",
        saved ? "replayed from there" : "replayed from the start", config_.log.dir);
  }

  void tell(const StepReport& r) {
    if (rank_ != 0) return;
    journal_->add(r);
    if (r.val_loss || r.step == r.steps) journal_->draw();
    if (observer_.step) observer_.step(r);
  }

  // True on every rank where it is true on one.
  bool agree(bool value) {
    const at::Tensor flag = at::full({}, value ? 1 : 0, at::kLong);
    world_->all_reduce({&flag, 1});
    return flag.item<int64_t>() > 0;
  }

  // Every rank gathers; rank 0 writes. The others wait, so that a failure to write ends them too.
  void save() {
    CheckpointContent content =
        trainer_.checkpoint({.step = report_.last_step, .seed = config_.train.seed, .config = to_toml(config_)});
    if (rank_ == 0) {
      save_checkpoint(config_.log.dir, content, kKeptCheckpoints);
    } else {
      for (const auto* list : {&content.model, &content.optimizer})
        for (const TensorInfo& tensor : *list) content.get(tensor.name);
    }
    world_->barrier();
    saved_ = report_.last_step;
    report_.checkpoint = *find_latest(config_.log.dir);
    if (rank_ == 0) journal_->draw();
    if (rank_ == 0 && observer_.saved) observer_.saved(report_.checkpoint);
  }

  const Planned& run_;
  const Config& config_;
  const RunObserver& observer_;
  RankContext context_;
  int rank_;
  Recording* recording_;  // null: none
  Trainer trainer_;
  std::optional<RowWatch> rows_;  // until the first step is done
  std::optional<StepWatch> watch_;
  std::vector<double> step_seconds_;  // of the steps that it watched
  std::shared_ptr<wire::Group> world_;
  LearningRate rate_;
  double flops_;
  std::optional<Journal> journal_;
  Clock::time_point start_;
  int64_t saved_ = 0;
  RunReport report_;
};

void make_folder(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) input_error("log.dir: cannot make the folder '{}': {}", path, failure.message());
}

}  // namespace

RunReport train(const Planned& run, const data::Corpus& corpus, const RunObserver& observer,
                const std::atomic<bool>& stop) {
  const Config& config = run.config;
  expect_memory(run);
  make_folder(config.log.dir);
  const TrainingStep step = build_step(run_shape(run));
  const std::vector<AgreedSection> shared = what_ranks_share(run, step);
  std::optional<Recording> recording;
  if (observer.timeline) recording.emplace(step.schedule);
  const RunReport report = wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    agree(*wire::everyone(world, rank), shared);
    Walk walk(run, corpus, observer, {rank, &world, dtype_of(config)}, recording ? &*recording : nullptr);
    RunReport mine = walk.run(stop);
    if (recording) recording->share(rank, world);
    return mine;
  });
  if (recording && report.last_step > report.first_step)
    observer.timeline(recording->schedule(), recording->timeline());
  return report;
}

}  // namespace plait
