// `plait show CONFIG`: the training step as a typed schedule, one step a line; or what it takes on its machine, alone
// or beside another one: explained, as a table, or drawn over time, predicted or as it ran here.
#include <fmt/format.h>

#include <algorithm>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/drawing_files.h"
#include "apps/room_here.h"
#include "base/errors.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/measure.h"
#include "config/config.h"
#include "draw/timeline.h"
#include "schedule/text.h"
#include "train/trainer.h"
#include "tune/explanation.h"
#include "tune/schedule_choice.h"
#include "tune/step_plan.h"

namespace plait {
namespace {

struct Request {
  std::string path, against, csv;
  std::vector<std::string> overrides, with;
  DrawingFiles files;
  bool measure = false, explained = false;
  double busiest = 1;

  bool two() const { return !against.empty() || !with.empty(); }
  bool lists() const { return !two() && !explained && csv.empty() && !files.any(); }
};

// A config with what was chosen for it.
struct Shown {
  std::string name;  // "configs/tiny.toml", of two with its overrides
  ChosenSchedule chosen;
  StepPlan plan;
};

void add_options(CommandLine& line, Request& request) {
  line.config(request.path, request.overrides);
  add_options(line, request.files);
  line.option("--csv", request.csv, "its seconds, bytes, messages and memory by kind as comma-separated values")
      .option("--against", request.against, "another config beside it: a table, and pictures on one axis of time")
      .options("--with", request.with, "KEY=VALUE ...: of the other one; without --against it is CONFIG, changed so")
      .flag("--explain", request.explained,
            "the seconds of every kind of step, what a rank sends, the critical path, and the choice of the schedule")
      .option("--busiest", request.busiest,
              "with --explain: rows of the busiest rank's experts, as a multiple of the mean", Reals{.least = 1})
      .flag("--measure", request.measure, "draw a step that ran here on random tokens instead of a predicted one");
}

void check_request(const Request& r) {
  if (r.busiest > 1 && !r.explained) input_error("--busiest says what to explain: it needs --explain");
  if (!r.files.any() && r.measure) input_error("--measure says what to draw: it needs --svg, --html or --trace FILE");
  if (r.two() && !r.files.trace.empty())
    input_error("--trace {}: a trace holds one schedule: --svg and --html draw two", r.files.trace);
}

ChosenSchedule chosen_for(const std::string& path, const std::vector<std::string>& overrides, const Request& request) {
  const Config config = ready_config(path, overrides, this_launch());
  tell_idle_keys(config);
  ChosenSchedule chosen = choose_schedule(config, {.busiest = request.busiest});
  request.measure ? expect_memory_here(chosen.run) : tell_memory(chosen.run);
  return chosen;
}

Shown shown(const std::string& path, const std::vector<std::string>& overrides, const Request& request) {
  const ChosenSchedule chosen = chosen_for(path, overrides, request);
  const std::string name = request.two() && !overrides.empty() ? path + " " + join(overrides, " ") : path;
  return {name, chosen, plan_step(chosen.run, {.busiest = request.busiest})};
}

// One, or two: the other is its own file or the same one, with its own overrides.
std::vector<Shown> all_of(const Request& request) {
  std::vector<Shown> all = {shown(request.path, request.overrides, request)};
  if (!request.two()) return all;
  std::vector<std::string> overrides = request.against.empty() ? request.overrides : std::vector<std::string>{};
  overrides.insert(overrides.end(), request.with.begin(), request.with.end());
  all.push_back(shown(request.against.empty() ? request.path : request.against, overrides, request));
  return all;
}

std::string title(const Shown& s, const std::string& how) {
  const int ranks = s.plan.schedule.mesh.ranks();
  return fmt::format("{} on {} rank{}, {}", s.name, ranks, ranks == 1 ? "" : "s", how);
}

void explain_one(const Shown& s, const Request& request) {
  const RunShape shape = run_shape(s.chosen.run);
  const Explanation e = explain(s.plan.schedule, s.chosen.run.machine, shape.lanes, {.busiest = request.busiest});
  if (request.two()) fmt::print("{}\n", s.name);
  fmt::print("{}\n{}\n{}", explanation_text(s.chosen, e), traffic_text(s.plan), critical_path_text(s.plan));
  if (request.two()) fmt::print("\n");
}

// Of those that are told without their machine's line.
void warn(const std::vector<Shown>& all) {
  for (const Shown& s : all)
    if (const std::string words = beyond_measured(s.chosen.run.machine, s.plan.schedule.mesh.ranks()); !words.empty())
      fmt::print("{}: measured on {} ranks; {}\n", s.chosen.run.machine.name, s.chosen.run.machine.ranks, words);
}

void print_table(const std::vector<Shown>& all, const std::vector<std::vector<Figure>>& told) {
  for (size_t i = 0; i < all.size(); ++i)
    fmt::print("{}: {}\n", static_cast<char>('A' + i), title(all[i], "predicted on " + all[i].chosen.run.machine.name));
  fmt::print("\n{}", figures_text(told));
}

Drawing measured_drawing(const Shown& s) {
  const RecordedSteps recorded = record_steps(s.chosen.run);
  const double replay = simulate(recorded.schedule, measured(recorded.schedule, recorded.fastest())).makespan;
  fmt::print("the fastest of {} steps; its spans played again in their order take {:.1f}% of its time\n",
             recorded.steps.size(), 100 * replay / recorded.fastest().makespan);
  return drawing(recorded.schedule, s.chosen.run.machine, title(s, "measured"), recorded.fastest());
}

Drawing drawing_of(const Shown& s, const Request& request) {
  if (request.measure) return measured_drawing(s);
  const Machine& machine = s.chosen.run.machine;
  return predicted_drawing(s.plan.schedule, machine, title(s, "predicted on " + machine.name), s.plan.timeline);
}

void draw(const std::vector<Shown>& all, const Request& request) {
  std::vector<Drawing> drawings;
  for (const Shown& s : all) drawings.push_back(drawing_of(s, request));
  save(request.files, drawings);
  for (const Drawing& d : drawings) fmt::print("{}: {}\n", d.title, human_seconds(d.timeline.makespan));
}

}  // namespace

int show_app(Arguments arguments) {
  Request request;
  CommandLine line("show", "Prints the training step of a config as a typed schedule, or tells and draws its time");
  add_options(line, request);
  if (!line.parse(arguments)) return 0;
  check_request(request);
  if (request.lists()) {
    const ChosenSchedule chosen = chosen_for(request.path, request.overrides, request);
    fmt::print("{}", print(build_step(run_shape(chosen.run)).schedule));
    return 0;
  }
  const std::vector<Shown> all = all_of(request);
  if (request.explained)
    for (const Shown& s : all) explain_one(s, request);
  if (request.two() || !request.csv.empty()) {
    std::vector<std::vector<Figure>> told;
    for (const Shown& s : all) told.push_back(figures(s.plan));
    print_table(all, told);
    if (!request.csv.empty()) write_of_first(request.csv, figures_csv(told));
  }
  if (request.files.any()) draw(all, request);
  if (!request.explained) warn(all);
  return 0;
}

}  // namespace plait
