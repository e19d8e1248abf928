// `plait verify CONFIG`: this layout against one rank in float64, or every family at ten layouts. Exit code 0 when all
// agree below 1e-9. Or a run's steps again, from its last checkpoint, until a value is not finite.
#include <fmt/format.h>

#include <cstdio>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/table.h"
#include "base/text.h"
#include "train/loop.h"
#include "tune/schedule_choice.h"
#include "verify/replay.h"
#include "verify/verify.h"
#include "verify/verify_matrix.h"

namespace plait {
namespace {

// One line a case; 1 if any differs.
int verify_everywhere(const Planned& run, const data::Corpus& corpus) {
  int differ = 0, refused = 0, agreed = 0;
  for (const VerifyCase& v : verify_matrix(run.config)) {
    if (!v.refusal.empty()) {
      ++refused;
      fmt::print("refused  {}: {}\n", v.text(), v.refusal);
      continue;
    }
    const VerifyReport report = verify({v.config, run.machine}, corpus);
    ++(report.agrees() ? agreed : differ);
    fmt::print("{}  {}: largest {:.1e}{}\n", report.agrees() ? "agrees " : "DIFFERS", v.text(), report.largest(),
               report.replicas.empty() ? "" : "; replicas differ: " + report.replicas.front());
    std::fflush(stdout);
  }
  fmt::print("{} agree below 1e-09, {} differ, {} refused\n", agreed, differ, refused);
  return differ ? 1 : 0;
}

// What is compared is computed in float64.
Planned in_double(Planned run) {
  run.config.train.dtype = RunType::float64;
  return run;
}

// 1 if a value is not finite.
int replay(const Planned& run, const data::Corpus& corpus, std::optional<int64_t> steps) {
  const Config& c = run.config;
  const ReplayPlan plan = replay_plan(c, steps);
  fmt::print("{}: steps {} to {}, {} on {} ranks\n",
             plan.checkpoint.empty() ? fmt::format("no checkpoint in '{}' yet, from the start", c.log.dir)
                                     : fmt::format("from '{}'", plan.checkpoint),
             plan.first + 1, plan.end, word(c.train.dtype), num_ranks(c));
  std::fflush(stdout);
  const std::optional<NotFiniteValue> first = first_not_finite(run, corpus, plan);
  fmt::print("{}\n", first ? first->text : "every value is finite");
  return first ? 1 : 0;
}

struct Asked {
  std::string path;
  std::vector<std::string> overrides;
  bool locate = false, all = false, replay = false;
  int64_t steps = 0;  // to be replayed; 0: those that are left
};

// Ways that look at all ranks at once, or stand alone.
void expect_possible(const Asked& asked) {
  if (asked.locate + asked.all + asked.replay > 1) input_error("verify: say one of --locate, --all and --replay");
  if (asked.steps < 0 || (asked.steps > 0 && !asked.replay))
    input_error("verify --steps {}: expected, with --replay, how many steps to take again", asked.steps);
  if ((asked.locate || asked.replay) && this_launch().launched())
    input_error("verify {} looks at all ranks at once: run it without a launcher",
                asked.locate ? "--locate" : "--replay");
}

}  // namespace

int verify_app(Arguments arguments) {
  Asked asked;
  CommandLine line("verify", "Compares a layout with one rank in float64: loss, gradients, norm, updates");
  line.config(asked.path, asked.overrides)
      .flag("--locate", asked.locate, "name the first value of the schedule that differs or is not finite")
      .flag("--all", asked.all, "every family at ten layouts of up to 16 ranks, dropless and padded")
      .flag(
          "--replay", asked.replay,
          "take the steps of a run again, from its last checkpoint and in its own type, and name the first value that "
          "is not finite; writes nothing")
      .option("--steps", asked.steps, "how many to replay; 0: to the end of the run");
  if (!line.parse(arguments)) return 0;
  expect_possible(asked);
  const Planned run = agreed_schedule(ready_config(asked.path, asked.overrides, this_launch())).run;
  const Config& config = run.config;
  expect_memory_here(asked.replay ? run : in_double(run));
  const data::Corpus corpus = data::load_corpus(corpus_source(config));
  if (asked.all) return verify_everywhere(run, corpus);
  if (asked.replay) return replay(run, corpus, asked.steps ? std::optional(asked.steps) : std::nullopt);
  fmt::print("{} on {} ranks (tp {}, dp {}; esp {}, ep {}) against one rank, float64\n", family_of(config).name,
             num_ranks(config), config.mesh.tp, config.mesh.dp, config.mesh.esp, config.mesh.ep);
  if (asked.locate) {
    const std::string first = locate(run, corpus);
    fmt::print("{}\n", first.empty() ? "every value agrees" : first);
    return first.empty() ? 0 : 1;
  }
  const VerifyReport report = verify(run, corpus);
  Table table({"what", "of", "max|a-b|/max|b|", "largest in"});
  for (const Difference& d : report.differences)
    table.row({d.what, d.group, fmt::format("{:.1e}", d.relative), d.worst});
  fmt::print("{}", table.str());
  for (const std::string& replica : report.replicas) fmt::print("replicas differ: {}\n", replica);
  fmt::print("{}: largest {:.1e}, bound 1e-09; replicas {}\n", report.agrees() ? "agrees" : "DIFFERS", report.largest(),
             report.replicas.empty() ? "equal in every bit" : "differ");
  return report.agrees() ? 0 : 1;
}

}  // namespace plait
