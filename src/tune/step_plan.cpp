#include "tune/step_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "draw/timeline.h"
#include "plan/choose.h"
#include "plan/critical_path.h"
#include "plan/traffic.h"
#include "run/profile.h"
#include "train/memory.h"
#include "train/run_shape.h"

namespace plait {
namespace {

constexpr size_t kMostKinds = 10;

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

const std::string& level_name(const StepPlan& plan, int level) {
  return plan.run.machine.levels[static_cast<size_t>(level)].name;
}

// Where a second of the path goes: "computing", "messages, node", "handing over".
std::vector<Figure> path_figures(const StepPlan& plan, const std::vector<CriticalStep>& path) {
  std::vector<Figure> all = {{"critical path", "computing", "s"}};
  for (const Level& level : plan.run.machine.levels) all.push_back({"critical path", "messages, " + level.name, "s"});
  all.push_back({"critical path", "handing over", "s"});
  for (const CriticalStep& c : path) {
    all[static_cast<size_t>(plan.costs[static_cast<size_t>(c.step)].lane)].value += c.end - c.start;
    all.back().value += c.idle;
  }
  all.back().value += plan.timeline.makespan - (path.empty() ? 0 : path.back().end);
  std::erase_if(all, [](const Figure& f) { return f.value <= 1e-12; });
  return all;
}

struct PathKind {
  std::string kind, longest;  // the name of its longest step
  int64_t steps = 0;
  double seconds = 0, most = 0;
};

std::vector<PathKind> kinds_of(const StepPlan& plan, const std::vector<CriticalStep>& path) {
  std::map<std::string, PathKind> kinds;
  for (const CriticalStep& c : path) {
    const Step& step = plan.schedule.steps[static_cast<size_t>(c.step)];
    PathKind& kind = kinds[kind_of(plan.schedule, step)];
    kind.kind = kind_of(plan.schedule, step);
    ++kind.steps;
    kind.seconds += c.end - c.start;
    if (c.end - c.start <= kind.most) continue;
    kind.most = c.end - c.start;
    kind.longest = fmt::format("step {}, %{}", c.step, plan.schedule.names[static_cast<size_t>(step.out[0])]);
  }
  std::vector<PathKind> sorted;
  for (auto& [name, kind] : kinds)
    if (kind.seconds > 0) sorted.push_back(std::move(kind));
  std::ranges::stable_sort(sorted, std::greater{}, &PathKind::seconds);
  return sorted;
}

std::string kinds_table(const std::vector<PathKind>& kinds, double whole) {
  Table table({"on the critical path", "steps", "ms", "of the step", "the longest"});
  for (size_t i = 0; i < std::min(kinds.size(), kMostKinds); ++i)
    table.row({kinds[i].kind, std::to_string(kinds[i].steps), ms(kinds[i].seconds), percent(kinds[i].seconds / whole),
               kinds[i].longest});
  const std::string more =
      kinds.size() > kMostKinds ? fmt::format("and {} more kinds of step\n", kinds.size() - kMostKinds) : "";
  return table.str() + more;
}

void add_seconds(const StepPlan& plan, std::vector<Figure>& all) {
  std::array<double, kStepKinds> seconds = {};
  const std::vector<StepNote> notes = step_notes(plan.schedule, check(plan.schedule), plan.costs);
  for (int step : issue_order(plan.schedule))
    seconds[static_cast<size_t>(notes[static_cast<size_t>(step)].kind)] +=
        plan.costs[static_cast<size_t>(step)].seconds;
  for (int k = 0; k < kStepKinds; ++k)
    all.push_back(
        {"one after another", std::string(name(static_cast<StepKind>(k))), "s", seconds[static_cast<size_t>(k)]});
}

void add_traffic(const StepPlan& plan, std::vector<Figure>& all) {
  const std::vector<Traffic> sent = traffic(plan.schedule, plan.costs);
  for (const auto& [what, unit] : {std::pair{"messages", ""}, std::pair{"sent", "bytes"}}) {
    const size_t whole = all.size();
    all.push_back({what, "all", unit});
    for (const Traffic& t : sent) {
      all.push_back({what, fmt::format("{}, {}", name(t.collective), level_name(plan, t.level)), unit,
                     *unit ? t.bytes : static_cast<double>(t.messages)});
      all[whole].value += all.back().value;
    }
  }
}

void add_memory(const StepPlan& plan, std::vector<Figure>& all) {
  const MemoryUse peak = predict_memory(plan.run).peak;
  all.push_back({"memory", "at most", "bytes", static_cast<double>(peak.total())});
  for (int c = 0; c < kMemoryClasses; ++c)
    all.push_back({"memory", std::string(name(static_cast<MemoryClass>(c))), "bytes",
                   static_cast<double>(peak.of(static_cast<MemoryClass>(c)))});
}

// Every figure that any plan has, in their order.
std::vector<Figure> rows_of(const std::vector<std::vector<Figure>>& plans) {
  std::vector<Figure> rows;
  for (const std::vector<Figure>& plan : plans) {
    auto at = rows.begin();
    for (const Figure& f : plan) {
      const auto there = std::ranges::find_if(rows, [&](const Figure& row) { return row.is(f); });
      at = there == rows.end() ? rows.insert(at, f) + 1 : there + 1;
    }
  }
  return rows;
}

std::vector<double> values_of(const std::vector<std::vector<Figure>>& plans, const Figure& row) {
  std::vector<double> values;
  for (const std::vector<Figure>& plan : plans) {
    const auto there = std::ranges::find_if(plan, [&](const Figure& f) { return row.is(f); });
    values.push_back(there == plan.end() ? 0 : there->value);
  }
  return values;
}

std::string shown(const Figure& row, double value) {
  if (row.unit == "s") return ms(value) + " ms";
  return row.unit == "bytes" ? human_bytes(value) : fmt::format("{:.0f}", value);
}

std::string quoted(const std::string& cell) {
  std::string out;
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return fmt::format("\"{}\"", out);
}

char letter(size_t plan) { return static_cast<char>('A' + plan); }

}  // namespace

StepPlan plan_step(const Planned& run, const LoadProfile& load) {
  const RunShape shape = run_shape(run);
  StepPlan plan{.run = run, .schedule = build_step(shape).schedule};
  plan.costs = step_costs(plan.schedule, check(plan.schedule), run.machine, load);
  plan.timeline = predicted_timeline(plan.schedule, run.machine, shape.lanes, load);
  return plan;
}

std::string traffic_text(const StepPlan& plan) {
  const std::vector<Traffic> sent = traffic(plan.schedule, plan.costs);
  if (sent.empty()) return "a rank sends nothing\n";
  Table table({"a rank sends", "level", "messages", "bytes", "predicted ms"});
  Traffic all;
  for (const Traffic& t : sent) {
    table.row({std::string(name(t.collective)), level_name(plan, t.level), std::to_string(t.messages),
               human_bytes(t.bytes), ms(t.seconds)});
    all.messages += t.messages, all.bytes += t.bytes, all.seconds += t.seconds;
  }
  table.row({"all", "", std::to_string(all.messages), human_bytes(all.bytes), ms(all.seconds)});
  const bool levels = std::ranges::any_of(sent, [](const Traffic& t) { return t.messages == 0; });
  return table.str() + (levels ? "a message counts where it is slowest, its bytes where they go\n" : "");
}

std::string critical_path_text(const StepPlan& plan) {
  const std::vector<CriticalStep> path = critical_path(plan.schedule, plan.timeline);
  const double whole = plan.timeline.makespan;
  std::vector<std::string> shares;
  for (const Figure& f : path_figures(plan, path))
    shares.push_back(fmt::format("{} {} ({})", f.kind, human_seconds(f.value), percent(f.value / whole, 0)));
  return fmt::format("critical path, {} of {} steps, {}: {}\n{}", path.size(), issue_order(plan.schedule).size(),
                     human_seconds(whole), join(shares, "; "), kinds_table(kinds_of(plan, path), whole));
}

std::vector<Figure> figures(const StepPlan& plan) {
  std::vector<Figure> all = {{"step", "", "s", plan.timeline.makespan}};
  const std::vector<Figure> path = path_figures(plan, critical_path(plan.schedule, plan.timeline));
  all.insert(all.end(), path.begin(), path.end());
  add_seconds(plan, all);
  add_traffic(plan, all);
  add_memory(plan, all);
  std::erase_if(all, [](const Figure& f) { return f.value == 0; });
  return all;
}

std::string figures_text(const std::vector<std::vector<Figure>>& plans) {
  std::vector<std::string> header = {"", ""};
  for (size_t p = 0; p < plans.size(); ++p) header.emplace_back(1, letter(p));
  if (plans.size() == 2) header.emplace_back("B / A");
  Table table(header);
  std::string last;
  for (const Figure& row : rows_of(plans)) {
    const std::vector<double> values = values_of(plans, row);
    std::vector<std::string> cells = {row.what == last ? "" : row.what, row.kind};
    for (double value : values) cells.push_back(shown(row, value));
    if (plans.size() == 2) cells.push_back(values[0] > 0 ? times(values[1] / values[0]) : "");
    table.row(std::move(cells));
    last = row.what;
  }
  return table.str();
}

std::string figures_csv(const std::vector<std::vector<Figure>>& plans) {
  std::string text = "what,kind,unit";
  for (size_t p = 0; p < plans.size(); ++p) text += fmt::format(",{}", letter(p));
  text += plans.size() == 2 ? ",ratio\n" : "\n";
  for (const Figure& row : rows_of(plans)) {
    const std::vector<double> values = values_of(plans, row);
    text += fmt::format("{},{},{}", row.what, quoted(row.kind), row.unit);
    for (double value : values) text += fmt::format(",{:.9g}", value);
    if (plans.size() == 2) text += values[0] > 0 ? fmt::format(",{:.6g}", values[1] / values[0]) : ",";
    text += "\n";
  }
  return text;
}

}  // namespace plait
