// `plait verify CONFIG`: this layout against one rank in float64, or every family at ten layouts. Exit code 0 when all
// agree below 1e-9.
#include <fmt/format.h>

#include <cstdio>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/table.h"
#include "train/loop.h"
#include "tune/schedule_choice.h"
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

}  // namespace

int verify_app(Arguments arguments) {
  std::string path;
  std::vector<std::string> overrides;
  bool where = false, everywhere = false;
  CommandLine line("verify", "Compares a layout with one rank in float64: loss, gradients, norm, updates");
  line.config(path, overrides)
      .flag("--locate", where, "name the first value of the schedule that differs or is not finite")
      .flag("--all", everywhere, "every family at ten layouts of up to 16 ranks, dropless and padded");
  if (!line.parse(arguments)) return 0;
  const Planned run = agreed_schedule(ready_config(path, overrides, this_launch())).run;
  const Config& config = run.config;
  expect_memory_here(in_double(run));
  const data::Corpus corpus = data::load_corpus(corpus_source(config));
  if (everywhere) return verify_everywhere(run, corpus);
  fmt::print("{} on {} ranks (tp {}, dp {}; esp {}, ep {}) against one rank, float64\n", family_of(config).name,
             num_ranks(config), config.mesh.tp, config.mesh.dp, config.mesh.esp, config.mesh.ep);
  if (where) {
    if (this_launch().launched()) input_error("verify --locate looks at all ranks at once: run it without a launcher");
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
