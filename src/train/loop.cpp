#include "train/loop.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/errors.h"
#include "base/statistics.h"
#include "base/stop.h"
#include "launch/board.h"
#include "plan/flops.h"
#include "run/recording.h"
#include "train/agreement.h"
#include "train/journal.h"
#include "train/lr.h"
#include "train/run_lock.h"
#include "train/saving.h"
#include "train/texts.h"
#include "train/timetable.h"

namespace plait {
namespace {

constexpr int kKeptCheckpoints = 2;
constexpr int kMostSkips = 10;  // steps in a row that the smallest loss scale may skip

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const Clock::time_point program_began = Clock::now();
double now() { return seconds_since(program_began); }

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
        flops_(total_flops(trainer_.schedule().schedule)),
        times_(save_interval(config_), max_time(config_), 0),
        text_(fingerprint(corpus)) {
    if (observer_.memory) rows_.emplace(trainer_.executor(), context_);
    if (observer_.explanation) watch_.emplace(trainer_.schedule().schedule);
    observe();
  }

  // From the checkpoint of log.dir, from the weights of train.init, or anew.
  void resume(GoOn go_on) {
    const auto note = [&](const std::string& line) {
      if (rank_ == 0 && observer_.note) observer_.note(line);
    };
    if (const auto checkpoint = checkpoint_of(config_, text_, go_on, note)) {
      trainer_.load(*checkpoint);
      report_.first_step = report_.last_step = saved_ = checkpoint->step();
      report_.checkpoint = checkpoint->folder();
      if (rank_ == 0 && observer_.resumed) observer_.resumed(report_.checkpoint, saved_);
    } else if (const auto weights = weights_of(config_, note)) {
      trainer_.load_weights(*weights);
    }
    if (rank_ == 0) journal_.emplace(config_, report_.first_step, note);
  }

  RunReport run() {
    start_ = Clock::now();
    times_.begin(now());
    for (int64_t step = report_.first_step; step < config_.train.steps && !report_.interrupted(); ++step) one(step);
    if (report_.last_step > saved_) save(Last::yes);
    expects_learning();
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

  // A step, what is due after it, and a look at whether there is to be another.
  void one(int64_t step) {
    StepReport r = trained(step);
    const bool last = step + 1 == config_.train.steps;
    if (config_.train.eval_every > 0 && ((step + 1) % config_.train.eval_every == 0 || last)) r.val_loss = evaluated();
    r.seconds_left = seconds_since(start_) / static_cast<double>(step + 1 - report_.first_step) *
                     static_cast<double>(config_.train.steps - step - 1);
    tell(r);
    const bool by_steps = config_.train.save_every > 0 && (step + 1) % config_.train.save_every == 0;
    if (last) return;
    if (heard() == Due::save || (by_steps && !report_.interrupted())) {
      save(Last::no);
      heard();
    }
  }

  StepReport trained(int64_t step) {
    const auto begin = Clock::now();
    StepReport r{.step = step + 1, .steps = config_.train.steps, .lr = rate_.at(step)};
    if (recording_) recording_->begin(rank_);
    context_.world->board(rank_).where.set(fmt::format("training step {}", step + 1));
    if (watch_) watch_->begin();
    try {
      r.result = trainer_.step(step, r.lr);
      expects_finite(r.result);
    } catch (const NotFinite& e) {
      throw StepFault(fmt::format("training step {}: {}; {}", step + 1, e.what(), advice()));
    } catch (const StepFault& e) {
      throw StepFault(fmt::format("training step {}: {}", step + 1, e.what()));
    }
    const double seconds = seconds_since(begin);
    times_.step_took(seconds);
    watched(step, seconds);
    r.ms = 1e3 * seconds;
    r.tokens_per_s = tokens() / seconds;
    r.gflops = flops_ / seconds / 1e9;
    if (rows_) tell_memory();
    report_.last_step = step + 1;
    return r;
  }

  // Left, without a value, when the run is told to end.
  std::optional<double> evaluated() {
    const auto begin = Clock::now();
    context_.world->board(rank_).where.set(fmt::format("evaluation after training step {}", report_.last_step));
    const std::optional<double> loss = trainer_.evaluate([&] {
      heard();
      return report_.interrupted();
    });
    if (loss) report_.val_loss = loss;
    times_.evaluation_took(seconds_since(begin));
    return loss;
  }

  // Loss and norm are the same on all ranks, so all end here together, and nothing is saved after it.
  void expects_finite(const StepResult& r) {
    const std::pair<const char*, double> values[] = {
        {"loss", r.nll}, {"auxiliary loss", r.aux}, {"gradient norm", r.skipped ? 0 : r.grad_norm}};
    for (const auto& [what, value] : values)
      if (!std::isfinite(value))
        throw NotFinite(fmt::format("the {} is {}", what, std::isnan(value) ? "nan" : "infinite"));
    learned_ = learned_ || !r.skipped;
    skips_ = r.skipped && r.loss_scale <= config_.train.min_loss_scale ? skips_ + 1 : 0;
    if (skips_ == kMostSkips)
      throw NotFinite(
          fmt::format("a gradient was not finite in each of the last {} steps, at the smallest loss scale "
                      "(train.min_loss_scale = {})",
                      kMostSkips, config_.train.min_loss_scale));
  }

  std::string advice() const {
    const bool saved = saved_ > 0;
    return fmt::format(
        "{}: go on with a lower optim.lr, or see where it begins, replayed from {}, with `plait verify {}/{} --replay`",
        saved ? "the last checkpoint is as it was" : "there is no checkpoint yet", saved ? "there" : "the start",
        config_.log.dir, kResolvedConfig);
  }

  void expects_learning() const {
    if (learned_ || report_.last_step == report_.first_step || report_.interrupted()) return;
    throw StepFault(
        fmt::format("all {} steps were skipped, as a gradient was not finite in each: nothing was learned; go on with "
                    "the same command, or begin with a smaller train.initial_scale_power",
                    report_.last_step - report_.first_step));
  }

  void tell(const StepReport& r) {
    if (rank_ != 0) return;
    journal_->add(r);
    if (r.val_loss || r.step == r.steps) journal_->draw();
    if (observer_.step) observer_.step(r);
  }

  // Every rank says what it was told and rank 0 what its clock says, and all hear the same.
  enum class Due { nothing, save };
  Due heard() {
    const at::Tensor word = at::zeros({stop::kSignals + 2}, at::kLong);
    int64_t* said = word.mutable_data_ptr<int64_t>();
    for (int i = 0; i < stop::kSignals; ++i) said[i] = stop::requested() == stop::signals[i];
    said[stop::kSignals] = rank_ == 0 && times_.time_up(now());
    said[stop::kSignals + 1] = rank_ == 0 && times_.save_due(now());
    world_->all_reduce({&word, 1});
    for (int i = 0; i < stop::kSignals && report_.signal == 0; ++i)
      if (said[i] > 0) report_.signal = stop::signals[i];
    report_.time_up = said[stop::kSignals] > 0;
    return said[stop::kSignals + 1] > 0 && !report_.interrupted() ? Due::save : Due::nothing;
  }

  enum class Last { yes, no };
  void save(Last last) {
    CheckpointContent content =
        trainer_.checkpoint({.step = report_.last_step, .seed = config_.train.seed, .config = to_toml(config_)});
    content.state.more.add("text", text_);
    context_.world->board(rank_).where.set(fmt::format("the checkpoint after training step {}", report_.last_step));
    const SaveResult result = save_together(*world_, std::move(content),
                                            {.dir = config_.log.dir,
                                             .keep = kKeptCheckpoints,
                                             .patience = config_.log.timeout,
                                             .progress = observer_.saving});
    times_.save_took(result.seconds, now());
    if (result.outcome == SaveResult::Outcome::saved) return tell_saved();
    if (rank_ == 0) not_saved(result, last);
    if (last == Last::yes || result.outcome == SaveResult::Outcome::not_finite)
      world_->barrier();  // rank 0 never comes
  }

  void tell_saved() {
    saved_ = report_.last_step;
    report_.checkpoint = checkpoint_folder(config_.log.dir, saved_);
    if (rank_ != 0) return;
    journal_->draw();
    if (observer_.saved) observer_.saved(report_.checkpoint);
  }

  void not_saved(const SaveResult& result, Last last) {
    if (result.outcome == SaveResult::Outcome::not_finite)
      throw StepFault(fmt::format("training step {}: '{}' holds a value that is not finite, and is not saved; {}",
                                  report_.last_step, result.why, advice()));
    if (last == Last::yes || result.outcome == SaveResult::Outcome::stuck) throw InputError(result.why);
    if (observer_.note) observer_.note(fmt::format("{}; the run goes on, and will try again", result.why));
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
  Timetable times_;
  std::string text_;  // fingerprint of the text
  std::optional<Journal> journal_;
  Clock::time_point start_;
  int64_t saved_ = 0;
  bool learned_ = false;
  int skips_ = 0;  // in a row, at the smallest loss scale
  RunReport report_;
};

// Rank 0 takes the folder; the others must see that it did. Before anything is written.
std::unique_ptr<RunLock> taken_folder(wire::Group& everyone, const std::string& dir, const RunObserver& observer) {
  std::unique_ptr<RunLock> lock;
  if (everyone.rank() == 0) {
    lock = std::make_unique<RunLock>(dir, observer.note);
    for (const std::string& name : remove_leftovers(dir))
      if (observer.note) observer.note(fmt::format("{}/{}: left by a save that was cut short, removed", dir, name));
  }
  const std::string token = text_of_first(everyone, lock ? lock->token() : "");
  const auto begin = Clock::now();
  while (RunLock::token_in(dir) != token) {  // a network folder may show it late
    if (seconds_since(begin) > 10)
      input_error("log.dir: rank {} does not see '{}' as rank 0 does: give a folder that all nodes share",
                  everyone.ranks()[static_cast<size_t>(everyone.rank())], dir);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  everyone.barrier();  // a run with nothing left to do gives the folder back at once
  return lock;
}

}  // namespace

RunReport train(const Planned& run, const data::Corpus& corpus, const RunObserver& observer, GoOn go_on) {
  const Config& config = run.config;
  expect_memory(run);
  std::optional<stop::Leaving> leaving(std::in_place);
  const TrainingStep step = build_step(run_shape(run));
  std::vector<AgreedSection> shared = what_ranks_share(run, step);
  shared.push_back({"text", {{"the text of data.path", fingerprint(corpus)}}});
  leaving.reset();
  std::optional<Recording> recording;
  if (observer.timeline) recording.emplace(step.schedule);
  const RunReport report = wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    std::optional<stop::Leaving> leaving(std::in_place);
    const auto everyone = wire::everyone(world, rank);
    agree(*everyone, shared);
    const auto lock = taken_folder(*everyone, config.log.dir, observer);
    Walk walk(run, corpus, observer, {rank, &world, dtype_of(config)}, recording ? &*recording : nullptr);
    walk.resume(go_on);
    leaving.reset();
    RunReport mine = walk.run();
    if (recording) recording->share(rank, world);
    return mine;
  });
  if (recording && report.last_step > report.first_step)
    observer.timeline(recording->schedule(), recording->timeline());
  return report;
}

}  // namespace plait
