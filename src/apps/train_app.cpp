// `plait train CONFIG`: the main job. One line a step; metrics, curve, resolved config and checkpoints under log.dir.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/drawing_files.h"
#include "base/files.h"
#include "base/table.h"
#include "base/units.h"
#include "config/config.h"
#include "draw/timeline.h"
#include "machine/machine_of.h"
#include "train/generate.h"
#include "train/loop.h"
#include "tune/explanation.h"
#include "tune/schedule_choice.h"

namespace plait {
namespace {

std::atomic<bool> stop_requested = false;

// The first Ctrl-C asks for a checkpoint after this step; the second ends the process at once.
void on_interrupt(int) {
  if (stop_requested.exchange(true)) _exit(130);
}

std::string step_line(const StepReport& r) {
  const int width = static_cast<int>(std::to_string(r.steps).size());
  std::string line =
      fmt::format("step {:{}}/{} | loss {:.4f} | norm {:.3f} | lr {:.2e} | {:.0f} ms | {:.0f} tok/s | {:.0f} GF/s",
                  r.step, width, r.steps, r.result.nll, r.result.grad_norm, r.lr, r.ms, r.tokens_per_s, r.gflops);
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
  fmt::print("{} parameters, {} active per token; {} ranks: tp {}, dp {}; esp {}, ep {}, edp {}; {} thread{} a rank\n",
             human_count(all), human_count(active), shape.mesh.ranks(), shape.mesh.extent(Axis::tp),
             shape.mesh.extent(Axis::dp), shape.mesh.extent(Axis::esp), shape.mesh.extent(Axis::ep),
             shape.mesh.extent(Axis::edp), run.config.mesh.threads, run.config.mesh.threads == 1 ? "" : "s");
}

void say_trial(const std::string& line) {
  fmt::print("auto {}\n", line);
  std::fflush(stdout);
}

void print_choice(const ChosenSchedule& chosen) {
  if (!chosen.choices.empty()) fmt::print("{}: {}\n", choice_title(chosen), summary(chosen.choices));
}

RunObserver observer(const Planned& run, const std::string& trace) {
  const Config& config = run.config;
  RunObserver all{.resumed = [&](int64_t step) { fmt::print("resumed {} at step {}\n", config.log.dir, step); },
                  .step =
                      [&](const StepReport& r) {
                        if (r.step % config.log.every == 0 || r.step == r.steps || r.val_loss)
                          fmt::print("{}\n", step_line(r));
                        std::fflush(stdout);
                      },
                  .saved = [](const std::string& folder) { fmt::print("saved {}\n", folder); }};
  if (trace.empty()) return all;
  all.timeline = [&](const Schedule& schedule, const Timeline& timeline) {
    write_of_first(trace, chrome_trace(drawing(schedule, run.machine, config.log.dir + ", the last step", timeline)));
    fmt::print("{}\n", trace);
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
  fmt::print("\nmemory told in advance, rows at their expected number; most at step {}, {} -> %{}:\n{}\n", plan.step,
             schedule.title(step), schedule.names[static_cast<size_t>(step.out[0])],
             memory_table({"told"}, {plan.peak}));
}

void print_comparison(const MemoryComparison& memory) {
  fmt::print(
      "\nmemory of rank {} in this step, which took most; told with the rows that it had:\n{}buffers hold {} MiB of "
      "the "
      "system\n\n",
      memory.rank, memory_table({"told", "measured"}, {memory.predicted, memory.measured}), mib(memory.reserved, 3));
}

void print_end(const Config& config, const RunReport& report) {
  fmt::print("{}: {} steps in {}, {:.0f} tokens/s{}\n", report.interrupted ? "interrupted" : "done",
             report.last_step - report.first_step, human_seconds(report.seconds), report.tokens_per_s,
             report.val_loss ? fmt::format("; validation loss {:.4f} nats, {:.3f} bits per byte", *report.val_loss,
                                           *report.val_loss / std::log(2.0))
                             : "");
  fmt::print("{0}/metrics.jsonl, {0}/loss.svg, {1}\n", config.log.dir, report.checkpoint);
}

void print_sample(const RunReport& report, const Catalogue& catalogue) {
  fmt::print("\na sample:\n{}\n",
             generate(report.checkpoint,
                      {.prompt = "\n", .tokens = 300, .temperature = 0.8, .seed = 1, .catalogue = catalogue}));
}

}  // namespace

int train_app(Arguments arguments) {
  std::string path, trace;
  std::vector<std::string> overrides;
  bool explain_memory = false, explain = false;
  CommandLine line("train", "Trains a model; resumes from log.dir where a checkpoint lies there");
  line.config(path, overrides)
      .option("--trace", trace, "the last step of all ranks for Perfetto or chrome://tracing")
      .flag("--explain", explain,
            "at the end the seconds of every kind of step, predicted and measured, and the choice")
      .flag("--explain-memory", explain_memory, "tells the memory of a rank, then measures it");
  if (!line.parse(arguments)) return 0;
  const Config asked = ready_config(path, overrides, this_launch());
  const ChosenSchedule agreed = agreed_schedule(asked);
  expect_memory(agreed.run);
  const data::Corpus corpus = data::load_corpus(corpus_source(asked));
  const ChosenSchedule chosen = tried_schedule(asked, agreed, say_trial);
  const Config& config = chosen.run.config;
  fmt::print("{}", config_table(config));
  fmt::print("{} training and {} validation tokens\n", human_count(static_cast<double>(corpus.training().size())),
             human_count(static_cast<double>(corpus.validation().size())));
  print_model(chosen.run);
  print_choice(chosen);
  RunObserver shown = observer(chosen.run, trace);
  if (explain) shown.explanation = [&](const Explanation& e) { fmt::print("\n{}\n", explanation_text(chosen, e)); };
  if (explain_memory) {
    print_prediction(chosen.run);
    shown.memory = print_comparison;
  }
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  const RunReport report = train(chosen.run, corpus, shown, stop_requested);
  if (report.last_step == report.first_step) {
    fmt::print("{} has {} steps already: raise train.steps or choose another log.dir\n", config.log.dir,
               report.last_step);
    return 0;
  }
  print_end(config, report);
  if (report.interrupted) return 130;
  print_sample(report, *config.catalogue);
  return 0;
}

}  // namespace plait
