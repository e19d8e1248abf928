// `plait show CONFIG`: the training step as a typed schedule, one step a line; or drawn over the time that it is
// predicted to take on its machine, or took here.
#include <fmt/format.h>

#include <algorithm>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/drawing_files.h"
#include "apps/room_here.h"
#include "base/errors.h"
#include "base/units.h"
#include "bench/measure.h"
#include "config/config.h"
#include "draw/timeline.h"
#include "schedule/text.h"
#include "train/trainer.h"
#include "tune/explanation.h"
#include "tune/schedule_choice.h"

namespace plait {
namespace {

constexpr int kMostRanks = 4;  // of which a prediction is drawn; more are one, which stands for all

std::string title(const std::string& config, const Schedule& schedule, const std::string& how) {
  const int ranks = schedule.mesh.ranks();
  return fmt::format("{} on {} rank{}, {}", config, ranks, ranks == 1 ? "" : "s", how);
}

Drawing predicted_drawing(const Planned& run, const std::string& name) {
  const Schedule schedule = build_step(run_shape(run)).schedule;
  const Machine& machine = run.machine;
  const int ranks = schedule.mesh.ranks();
  Timing timing = predicted(schedule, step_costs(schedule, check(schedule), machine), ranks <= kMostRanks ? ranks : 1);
  if (!run.config.schedule.lanes) std::ranges::fill(timing.lanes, kComputeLane);
  return drawing(schedule, machine, title(name, schedule, "predicted on " + machine.name), simulate(schedule, timing));
}

Drawing measured_drawing(const Planned& run, const std::string& name) {
  const RecordedSteps recorded = record_steps(run);
  const double replay = simulate(recorded.schedule, measured(recorded.schedule, recorded.fastest())).makespan;
  fmt::print("the fastest of {} steps; its spans played again in their order take {:.1f}% of its time\n",
             recorded.steps.size(), 100 * replay / recorded.fastest().makespan);
  return drawing(recorded.schedule, run.machine, title(name, recorded.schedule, "measured"), recorded.fastest());
}

}  // namespace

int show_app(Arguments arguments) {
  std::string path;
  DrawingFiles files;
  std::vector<std::string> overrides;
  bool measure = false, explained = false;
  double busiest = 1;
  CommandLine line("show", "Prints the training step of a config as a typed schedule, or draws it over time");
  line.config(path, overrides);
  add_options(line, files);
  line.flag("--explain", explained, "the seconds that every kind of step should take, and the choice of the schedule")
      .option("--busiest", busiest, "with --explain: rows of the busiest rank's experts, as a multiple of the mean",
              Reals{.least = 1})
      .flag("--measure", measure, "draw a step that ran here on random tokens instead of a predicted one");
  if (!line.parse(arguments)) return 0;
  if (busiest > 1 && !explained) input_error("--busiest says what to explain: it needs --explain");
  const Config config = ready_config(path, overrides, this_launch());
  tell_idle_keys(config);
  const ChosenSchedule chosen = choose_schedule(config, {.busiest = busiest});
  const Planned& run = chosen.run;
  measure ? expect_memory_here(run) : tell_memory(run);
  if (!files.any() && measure) input_error("--measure says what to draw: it needs --svg, --html or --trace FILE");
  if (explained) {
    const RunShape shape = run_shape(run);
    fmt::print("{}", explanation_text(
                         chosen, explain(build_step(shape).schedule, run.machine, shape.lanes, {.busiest = busiest})));
    return 0;
  }
  if (!files.any()) {
    fmt::print("{}", print(build_step(run_shape(run)).schedule));
    return 0;
  }
  const Drawing drawing = measure ? measured_drawing(run, path) : predicted_drawing(run, path);
  save(files, drawing);
  fmt::print("{}: {}\n", drawing.title, human_seconds(drawing.timeline.makespan));
  return 0;
}

}  // namespace plait
