// `plait show CONFIG`: the training step as a typed schedule, one step a line; or drawn over the time that it is
// predicted to take, on the default machine.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "base/config.h"
#include "base/units.h"
#include "plan/timeline.h"
#include "schedule/text.h"
#include "train/durable_file.h"
#include "train/trainer.h"

namespace plait {
namespace {

constexpr int kMostRanks = 4;  // that are drawn; more are one, which stands for all

Drawing predicted_drawing(const std::string& config, const Schedule& schedule) {
  const Machine machine = default_machine();
  const Types types = check(schedule);
  const std::vector<StepCost> costs = step_costs(schedule, types, machine);
  const int ranks = schedule.mesh.ranks();
  return {.title = fmt::format("{} on {} rank{}, predicted on {}", config, ranks, ranks == 1 ? "" : "s", machine.name),
          .timeline = simulate(schedule, predicted(schedule, costs, ranks <= kMostRanks ? ranks : 1)),
          .notes = step_notes(schedule, types, costs),
          .lanes = lane_names(machine)};
}

void save(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  DurableFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

int show_app(Arguments arguments) {
  std::string path, svg, html, trace;
  std::vector<std::string> overrides;
  CommandLine line("show", "Prints the training step of a config as a typed schedule, or draws it over predicted time");
  line.config(path, overrides)
      .option("--svg", svg, "a picture of the predicted step")
      .option("--html", html, "the same as a page to zoom into")
      .option("--trace", trace, "the same for Perfetto or chrome://tracing");
  if (!line.parse(arguments)) return 0;
  const Schedule schedule = build_step(run_shape(ready_config(path, overrides))).schedule;
  if (svg.empty() && html.empty() && trace.empty()) {
    fmt::print("{}", print(schedule));
    return 0;
  }
  const Drawing drawing = predicted_drawing(path, schedule);
  if (!svg.empty()) save(svg, timeline_svg(drawing));
  if (!html.empty()) save(html, timeline_html(drawing));
  if (!trace.empty()) save(trace, chrome_trace(drawing));
  fmt::print("{} steps, {} predicted on {}\n", issue_order(schedule).size(), human_seconds(drawing.timeline.makespan),
             default_machine().name);
  return 0;
}

}  // namespace plait
