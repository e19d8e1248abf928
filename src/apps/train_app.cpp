// `plait train CONFIG`: the main job. One line a step; metrics, curve, resolved config and checkpoints under log.dir.
#include <fmt/format.h>

#include <csignal>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/drawing_files.h"
#include "apps/room_here.h"
#include "base/console.h"
#include "base/files.h"
#include "base/stop.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "config/config.h"
#include "draw/timeline.h"
#include "machine/machine_of.h"
#include "train/generate.h"
#include "train/loop.h"
#include "train/run_lock.h"
#include "tune/explanation.h"
#include "tune/schedule_choice.h"

namespace plait {
namespace {

constexpr int kTryAgain = 75;  // EX_TEMPFAIL

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

std::string step_line(const StepReport& r) {
  const int width = static_cast<int>(std::to_string(r.steps).size());
  std::string line =
      fmt::format("step {:{}}/{} | loss {:.4f} | norm {:.3f} | lr {:.2e} | {:.0f} ms | {:.0f} tok/s | {:.0f} GF/s",
                  r.step, width, r.steps, r.result.nll, std::isnan(r.result.grad_norm) ? NAN : r.result.grad_norm, r.lr,
                  r.ms, r.tokens_per_s, r.gflops);
  if (!r.result.layers.empty()) line += fmt::format(" | busiest {:.2f}x", r.result.busiest);
  if (r.result.dropped > 0) line += fmt::format(" | dropped {:.1f}%", 100 * r.result.dropped);
  if (r.result.skipped) line += fmt::format(" | skipped: overflow at loss scale {}", r.result.loss_scale);
  line += fmt::format(" | {} left", human_seconds(r.seconds_left));
  if (r.val_loss)
    line +=
        fmt::format("\n  validation: loss {:.4f} nats, {:.3f} bits per byte", *r.val_loss, *r.val_loss / std::log(2.0));
  return line;
}

void print_model(const Planned& run) {
  const RunShape shape = run_shape(run);
  const Model model = build_model(shape.mesh, shape.sizes);
  double all = 0, experts = 0;
  for (const Parameter& p : model.parameters) {
    const double n = static_cast<double>(num_elements(p));
    all += n;
    if (p.routed) experts += n;
  }
  const double active =
      all - experts * (1 - static_cast<double>(shape.sizes.top_k) / static_cast<double>(shape.sizes.experts));
  say("{} parameters, {} active per token; {} ranks: tp {}, dp {}; esp {}, ep {}, edp {}; {} thread{} a rank\n",
      human_count(all), human_count(active), shape.mesh.ranks(), shape.mesh.extent(Axis::tp),
      shape.mesh.extent(Axis::dp), shape.mesh.extent(Axis::esp), shape.mesh.extent(Axis::ep),
      shape.mesh.extent(Axis::edp), run.config.mesh.threads, run.config.mesh.threads == 1 ? "" : "s");
}

void say_trial(const std::string& line) { say("auto {}\n", line); }

void print_choice(const ChosenSchedule& chosen) {
  if (!chosen.choices.empty()) say("{}: {}\n", choice_title(chosen), summary(chosen.choices));
}

RunObserver observer(const Planned& run, const std::string& trace) {
  const Config& config = run.config;
  RunObserver all{
      .resumed = [](const std::string& folder, int64_t step) { say("resumed {} at step {}\n", folder, step); },
      .step =
          [&](const StepReport& r) {
            if (r.step % config.log.every == 0 || r.step == r.steps || r.val_loss) say("{}\n", step_line(r));
          },
      .saved = [](const std::string& folder) { say("saved {}\n", folder); },
      .saving =
          [](int64_t done, int64_t all) {
            say("saving: {} of {}\n", human_bytes(static_cast<double>(done)), human_bytes(static_cast<double>(all)));
          },
      .note = [](const std::string& line) { say("{}\n", line); }};
  if (trace.empty()) return all;
  all.timeline = [&](const Schedule& schedule, const Timeline& timeline) {
    write_of_first(trace, chrome_trace(drawing(schedule, run.machine, config.log.dir + ", the last step", timeline)));
    say("{}\n", trace);
  };
  return all;
}

std::vector<std::string> memory_cells(const MemoryUse& use, MemoryClass what) {
  return {mib(use.at({what, false}), 3), mib(use.at({what, true}), 3)};
}

// One row a class, dense and experts apart; `uses` side by side.
std::string memory_table(const std::vector<std::string>& titles, const std::vector<MemoryUse>& uses) {
  std::vector<std::string> header = {"MiB of a rank"};
  for (const std::string& title : titles) header.insert(header.end(), {title + ", dense", "experts"});
  Table table(header);
  const auto row = [&](std::string name, auto cells) {
    std::vector<std::string> all = {std::move(name)};
    for (const MemoryUse& use : uses)
      for (std::string& cell : cells(use)) all.push_back(std::move(cell));
    table.row(std::move(all));
  };
  for (int c = 0; c < kMemoryClasses; ++c) {
    const auto what = static_cast<MemoryClass>(c);
    row(std::string(name(what)), [&](const MemoryUse& use) { return memory_cells(use, what); });
  }
  row("together", [&](const MemoryUse& use) { return std::vector<std::string>{mib(use.total(), 3), ""}; });
  return table.str();
}

void print_prediction(const Planned& run) {
  const Schedule schedule = build_step(run_shape(run)).schedule;
  const MemoryPlan plan = predict_memory(run);
  const Step& step = schedule.steps[static_cast<size_t>(plan.step)];
  say("\nmemory told in advance, rows at their expected number; most at step {}, {} -> %{}:\n{}\n", plan.step,
      schedule.title(step), schedule.names[static_cast<size_t>(step.out[0])], memory_table({"told"}, {plan.peak}));
}

void print_comparison(const MemoryComparison& memory) {
  say("\nmemory of rank {} in this step, which took most; told with the rows that it had:\n{}buffers hold {} MiB of "
      "the "
      "system\n\n",
      memory.rank, memory_table({"told", "measured"}, {memory.predicted, memory.measured}), mib(memory.reserved, 3));
}

std::string end_word(const Config& config, const RunReport& report) {
  if (report.signal) return fmt::format("interrupted ({})", stop::name(report.signal));
  return report.time_up ? fmt::format("ended before train.max_time = {}", config.train.max_time) : "done";
}

void print_end(const Config& config, const RunReport& report) {
  const int64_t left = config.train.steps - report.last_step;
  say("{}: {} steps in {}, {:.0f} tokens/s{}\n", end_word(config, report), report.last_step - report.first_step,
      human_seconds(report.seconds), report.tokens_per_s,
      report.val_loss ? fmt::format("; validation loss {:.4f} nats, {:.3f} bits per byte", *report.val_loss,
                                    *report.val_loss / std::log(2.0))
                      : "");
  if (left > 0) say("the same command goes on with the {} steps that are left\n", left);
  say("{0}/metrics.jsonl, {0}/loss.svg, {1}\n", config.log.dir, report.checkpoint);
}

// What a shell or a scheduler is told.
int code_of(const Config& config, const RunReport& report) {
  const bool told = report.time_up || report.signal == SIGTERM || report.signal == SIGUSR1;
  if (told && config.train.on_term == OnTerm::requeue) return kTryAgain;
  return report.signal ? stop::code_of(report.signal) : 0;
}

void print_sample(const RunReport& report, const Catalogue& catalogue) {
  take_cores_here();
  say("\na sample:\n{}\n",
      visible(generate(report.checkpoint,
                       {.prompt = "\n", .tokens = 300, .temperature = 0.8, .seed = 1, .catalogue = catalogue})));
}

struct Asked {
  std::string path, trace;
  std::vector<std::string> overrides;
  bool explain_memory = false, explain = false, force = false;
};

bool parse(Arguments arguments, Asked& asked) {
  CommandLine line("train", "Trains a model; resumes from log.dir where a checkpoint lies there");
  return line.config(asked.path, asked.overrides)
      .option("--trace", asked.trace, "the last step of all ranks for Perfetto or chrome://tracing")
      .flag("--force", asked.force, "goes on from a checkpoint of another model, text or order of the data")
      .flag("--explain", asked.explain,
            "at the end the seconds of every kind of step, predicted and measured, and the choice")
      .flag("--explain-memory", asked.explain_memory, "tells the memory of a rank, then measures it")
      .parse(arguments);
}

// All that comes before the first step: who is told to end may leave it anywhere.
struct Prepared {
  data::Corpus corpus;
  ChosenSchedule chosen;
};

Prepared prepared(const Asked& asked) {
  const stop::Leaving leaving;
  const Config config = ready_config(asked.path, asked.overrides, this_launch());
  tell_idle_keys(config);
  expect_threads_here(config);
  if (this_launch().first()) {
    RunLock::expect_free(config.log.dir);
    if (!asked.trace.empty()) expect_writable(asked.trace);
  }
  const ChosenSchedule agreed = agreed_schedule(config);
  expect_memory_here(agreed.run);
  data::Corpus corpus = data::load_corpus(corpus_source(config));
  return {std::move(corpus), tried_schedule(config, agreed, say_trial)};
}

void print_plan(const Prepared& all) {
  say("{}", config_table(all.chosen.run.config));
  say("{} training and {} validation tokens\n", human_count(static_cast<double>(all.corpus.training().size())),
      human_count(static_cast<double>(all.corpus.validation().size())));
  print_model(all.chosen.run);
  print_choice(all.chosen);
}

}  // namespace

int train_app(Arguments arguments) {
  Asked asked;
  if (!parse(arguments, asked)) return 0;
  std::optional<stop::Signals> signals(std::in_place, this_launch().launched()
                                                          ? stop::Signals::Repeats::end_after_a_second
                                                          : stop::Signals::Repeats::end_at_once);
  const Prepared all = prepared(asked);
  const Config& config = all.chosen.run.config;
  print_plan(all);
  RunObserver shown = observer(all.chosen.run, asked.trace);
  if (asked.explain) shown.explanation = [&](const Explanation& e) { say("\n{}\n", explanation_text(all.chosen, e)); };
  if (asked.explain_memory) {
    print_prediction(all.chosen.run);
    shown.memory = print_comparison;
  }
  const RunReport report =
      train(all.chosen.run, all.corpus, shown, asked.force ? GoOn::whatever_changed : GoOn::as_it_was);
  if (report.last_step == report.first_step && !report.interrupted()) {
    say("{} has {} steps already: raise train.steps or choose another log.dir\n", config.log.dir, report.last_step);
    return 0;
  }
  print_end(config, report);
  if (report.interrupted()) return code_of(config, report);
  signals.reset();  // nothing is lost from here on
  print_sample(report, *config.catalogue);
  return 0;
}

}  // namespace plait
