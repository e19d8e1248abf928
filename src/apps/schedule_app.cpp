// `plait schedule WHAT FILE`: for those who invent schedules. Reads a list as `plait show` prints it, and checks it,
// adds its backward pass, rewrites it, prices it, draws it, or runs it beside one rank.
#include <fmt/format.h>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/drawing_files.h"
#include "base/errors.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "launch/launch.h"
#include "machine/machine_file.h"
#include "passes/differentiate.h"
#include "passes/loss.h"
#include "passes/lower.h"
#include "passes/named_rewrites.h"
#include "plan/choose.h"
#include "plan/memory.h"
#include "schedule/lanes.h"
#include "schedule/text.h"
#include "train/explain.h"
#include "verify/verify_schedule.h"

namespace plait {
namespace {

// What fault lies in a list that was read is told with its file.
template <class F>
auto of_file(const std::string& path, F work) {
  try {
    return work();
  } catch (const InputError& error) {
    input_error("{}: {}", path, error.what());
  }
}

std::string counted(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }
std::string counted_leaves(size_t n) { return n == 1 ? "1 leaf" : fmt::format("{} leaves", n); }

// "# it types: 6 leaves, 7 steps, 3 of them moves, which send 2 messages; 1 output": a comment, so that what is printed
// is a list still.
std::string counts(const Schedule& s) {
  size_t moves = 0, messages = 0;
  for (const Step& step : s.steps)
    if (const Move* move = as<Move>(step.op)) {
      ++moves;
      messages += collective(move->legs) == Collective::none ? 0 : 1;
    }
  return fmt::format("# it types: {}, {}, {} of them moves, which send {}; {}\n", counted_leaves(s.leaves.size()),
                     counted(s.steps.size(), "step"), moves, counted(messages, "message"),
                     counted(s.outputs.size(), "output"));
}

int check_file(Arguments arguments) {
  std::string path;
  CommandLine line("schedule check", "Reads and types a schedule, and prints it with the type of every value");
  line.positional("FILE", path, "a schedule as text, see docs/schedule.md");
  if (!line.parse(arguments)) return 0;
  const Schedule s = read_schedule(path);
  fmt::print("{}{}", print(s), counts(s));
  return 0;
}

int differentiate_file(Arguments arguments) {
  std::string path, loss;
  bool lowers = false;
  CommandLine line("schedule differentiate", "Adds the backward pass to a forward list and prints both as one list");
  line.positional("FILE", path, "a forward list")
      .option("--loss", loss, "the value to start from; without it the first output that is a real scalar")
      .flag("--lower", lowers, "also give steps that depend on counts of rows their tables");
  if (!line.parse(arguments)) return 0;
  const Schedule s = read_schedule(path);
  if (has_backward(s))
    input_error("{}: has a backward pass already: %{} is a cotangent", path, s.names[s.cotangent_of.begin()->first]);
  const Schedule whole = of_file(path, [&] { return differentiate(s, loss_of(s, loss)).schedule; });
  fmt::print("{}", print(lowers ? lower(whole) : whole));
  return 0;
}

std::string rewrites_help() {
  std::string text = "one or more, in order:";
  for (const NamedRewrite& r : named_rewrites())
    text += fmt::format("\n{}{}{}: {}", r.name, r.argument.empty() ? "" : "=", r.argument, r.summary);
  return text;
}

int rewrite_file(Arguments arguments) {
  std::string path;
  std::vector<std::string> requests;
  CommandLine line("schedule rewrite", "Applies rewrites to a list and prints what becomes of it");
  line.positional("FILE", path, "a schedule as text").rest("REWRITE", requests, rewrites_help());
  if (!line.parse(arguments)) return 0;
  if (requests.empty()) input_error("schedule rewrite {}: which? `plait schedule rewrite --help` lists them", path);
  Schedule s = read_schedule(path);
  std::string notes;
  for (const std::string& request : requests) {
    Schedule next = of_file(path, [&] { return rewritten(s, request); });
    if (print(next) == print(s)) notes += fmt::format("# {} found nothing to do\n", request);
    s = std::move(next);
  }
  fmt::print("{}{}", print(s), notes);
  return 0;
}

// Where a list runs: what the options of several verbs say.
struct Setting {
  std::string path, machine_path;
  bool lanes = false;

  Machine machine(const Mesh& mesh) const {
    return machine_path.empty() ? default_machine(mesh.sizes().node ? mesh.sizes().node : 8)
                                : read_machine(machine_path);
  }
  std::optional<NodeLanes> node_lanes(const Mesh& mesh) const {
    if (!lanes) return std::nullopt;
    return NodeLanes{mesh.sizes().node ? mesh.sizes().node : mesh.ranks()};
  }
  std::string title(const Schedule& s) const {
    return fmt::format("{} on {}, {}", path, counted(static_cast<size_t>(s.mesh.ranks()), "rank"),
                       counted(s.steps.size(), "step"));
  }
};

void add_setting(CommandLine& line, Setting& setting) {
  line.positional("FILE", setting.path, "a schedule as text")
      .option("--machine", setting.machine_path, "a machine file of `plait bench collectives`; else a laptop")
      .flag("--lanes", setting.lanes, "messages have threads of their own");
}

std::string in_ms(double seconds) { return fmt::format("{:.4f}", 1e3 * seconds); }
std::string in_bytes(double bytes) { return bytes ? human_bytes(bytes) : ""; }

std::string cost_table(const Explanation& e) {
  Table table({"kind of step", "steps", "ms", "a rank sends"});
  int64_t steps = 0;
  double seconds = 0, bytes = 0;
  for (const ExplainedKind& k : e.kinds) {
    table.row({k.kind, std::to_string(k.steps), in_ms(k.predicted), in_bytes(k.wire_bytes)});
    steps += k.steps, seconds += k.predicted, bytes += k.wire_bytes;
  }
  table.row({"all, one after another", std::to_string(steps), in_ms(seconds), in_bytes(bytes)});
  table.row({"the list as it runs", "", in_ms(e.predicted), ""});
  return table.str();
}

int cost_of_file(Arguments arguments) {
  Setting setting;
  CommandLine line("schedule cost", "Seconds and bytes of every kind of step of a list, on a machine");
  add_setting(line, setting);
  if (!line.parse(arguments)) return 0;
  const Schedule s = lowered(read_schedule(setting.path));
  const Machine machine = setting.machine(s.mesh);
  const MemoryPlan memory = plan_memory(s, check(s), {});
  fmt::print("{}, predicted on {}\n{}", setting.title(s), machine.name,
             cost_table(explain(s, machine, setting.node_lanes(s.mesh))));
  fmt::print("a rank holds {} at most, {}\n", human_bytes(static_cast<double>(memory.peak.total())),
             s.steps.empty() ? "its leaves" : fmt::format("in step {} of the list", memory.step));
  return 0;
}

int draw_file(Arguments arguments) {
  Setting setting;
  DrawingFiles files;
  CommandLine line("schedule draw", "Draws a list over the time that a machine should take");
  add_setting(line, setting);
  add_options(line, files);
  if (!line.parse(arguments)) return 0;
  if (!files.any()) input_error("schedule draw {}: into which file? --svg, --html or --trace FILE", setting.path);
  const Schedule s = lowered(read_schedule(setting.path));
  const Machine machine = setting.machine(s.mesh);
  const Drawing picture =
      predicted_drawing(s, machine, fmt::format("{}, predicted on {}", setting.title(s), machine.name),
                        predicted_timeline(s, machine, setting.node_lanes(s.mesh)));
  save(files, std::span(&picture, 1));
  fmt::print("{}: {}\n", picture.title, human_seconds(picture.timeline.makespan));
  return 0;
}

int run_file(Arguments arguments) {
  Setting setting;
  std::string loss;
  int64_t seed = 1;
  CommandLine line("schedule run",
                   "Runs a list on random data over threads, beside the same list on one rank, float64");
  line.positional("FILE", setting.path, "a schedule as text; a forward list is differentiated first")
      .option("--loss", loss, "the value to differentiate; without it the first output that is a real scalar")
      .option("--seed", seed, "of the random data", kSeed)
      .flag("--lanes", setting.lanes, "messages have threads of their own");
  if (!line.parse(arguments)) return 0;
  if (this_launch().launched()) input_error("schedule run looks at all ranks at once: run it without a launcher");
  const Schedule s = read_schedule(setting.path);
  const ScheduleReport report = of_file(setting.path, [&] {
    return verify_schedule(s, {.seed = static_cast<uint64_t>(seed), .lanes = setting.node_lanes(s.mesh), .loss = loss});
  });
  Table table({"what", "max|a-b|/max|b|"});
  for (const ScheduleReport::Line& l : report.lines) table.row({l.what, fmt::format("{:.1e}", l.relative)});
  fmt::print("{} against one rank, float64\n{}", setting.title(s), table.str());
  fmt::print("{}: largest {:.1e}, bound 1e-09\n", report.agrees() ? "agrees" : "DIFFERS", report.largest());
  return report.agrees() ? 0 : 1;
}

int grammar(Arguments arguments) {
  CommandLine line("schedule grammar", "Prints every op with its fields, as a schedule in a file writes them");
  if (!line.parse(arguments)) return 0;
  fmt::print("{}", op_grammar());
  return 0;
}

constexpr Verb kActs[] = {
    {"check", "types it and prints it with the type of every value", check_file},
    {"differentiate", "adds the backward pass and prints both", differentiate_file},
    {"rewrite", "applies rewrites, merge_moves or hoist=tp, and prints what becomes of it", rewrite_file},
    {"cost", "seconds and bytes of every kind of step on a machine", cost_of_file},
    {"draw", "a picture over time: --svg, --html, --trace", draw_file},
    {"run", "runs it on random data and compares with one rank", run_file},
    {"grammar", "prints every op with its fields", grammar},
};

}  // namespace

int schedule_app(Arguments arguments) {
  std::vector<std::string> names;
  for (const Verb& act : kActs) {
    if (!arguments.empty() && arguments[0] == act.name) return act.run(arguments.subspan(1));
    names.emplace_back(act.name);
  }
  const bool asked = !arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h");
  if (!asked && !arguments.empty()) {
    const std::string near = nearest(arguments[0], names);
    input_error("schedule {}: {}", arguments[0],
                near.empty() ? "there are " + join(names, ", ") : "did you mean " + near + "?");
  }
  fmt::print("plait schedule WHAT FILE ...: a schedule from a file, see docs/schedule.md\n\n");
  for (const Verb& act : kActs) fmt::print("  {:<15}{}\n", act.name, act.summary);
  return asked ? 0 : 2;
}

}  // namespace plait
