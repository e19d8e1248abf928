// A family of MoE schedules from outside Plait: rows are gathered over esp first and exchanged over ep then, where the
// built-in families do it the other way round. It is verified against one rank at three layouts, and drawn.
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "config/catalogue.h"
#include "config/config.h"
#include "data/corpus.h"
#include "draw/timeline.h"
#include "families/family.h"
#include "machine/machine.h"
#include "train/run_shape.h"
#include "verify/verify.h"

using namespace plait;

namespace {

std::vector<Legs> gather_then_exchange(const Leaving& from) {
  return {gather_legs(from.esp, from.own), exchange_legs(from.far, from.own, "E"),
          exchange_legs(from.ep, from.own, "E")};
}

const FamilySpec gather_first = {.name = "gather_first",
                                 .help = "rows are gathered over esp before they are exchanged over ep",
                                 .at_gate = FamilySpec::AtGate::part,
                                 .way_out = gather_then_exchange};

constexpr std::string_view kModel = R"(
[model]
hidden_size = 32
num_hidden_layers = 2
[moe]
num_experts = 4
moe_intermediate_size = 32
[train]
batch_size = 16
seq_length = 16
[data]
path = ["own_schedule.txt"]
)";

void write_text(const std::string& path) {
  std::ofstream file(path);
  for (int i = 0; i < 400; ++i) file << "line " << i * i << " of a text that repeats itself, more or less\n";
}

Config config(const Catalogue& catalogue, std::vector<std::string> keys) {
  Config c = resolve(parse_config(kModel, "own_schedule", keys, {}, catalogue));
  validate(c);
  return c;
}

void draw(const Config& c, const std::string& path) {
  const Schedule step = build_step(run_shape(c)).schedule;
  const Machine machine = default_machine();
  const Timing timing = predicted(step, step_costs(step, check(step), machine), step.mesh.ranks());
  std::ofstream(path) << timeline_svg(drawing(step, machine, "gather_first, predicted", simulate(step, timing)));
}

}  // namespace

int main() {
  Catalogue catalogue = built_in();
  catalogue.families.push_back(&gather_first);
  write_text("own_schedule.txt");
  bool all_agree = true;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"mesh.ep=2"}, {"mesh.tp=2", "mesh.ep=2"}, {"mesh.tp=2", "mesh.esp=1", "mesh.ep=2"}}) {
    std::vector<std::string> keys = layout;
    keys.push_back("schedule.moe=gather_first");
    const Config c = config(catalogue, keys);
    const VerifyReport report = verify(c, data::load_corpus(corpus_source(c)));
    all_agree = all_agree && report.agrees();
    fmt::print("gather_first, {}: largest {:.1e}, {}\n", fmt::join(layout, " "), report.largest(),
               report.agrees() ? "agrees" : "DIFFERS");
  }
  draw(config(catalogue, {"schedule.moe=gather_first", "mesh.tp=2", "mesh.ep=2"}), "own_schedule.svg");
  try {
    config(catalogue, {"schedule.moe=gather_frist"});
  } catch (const InputError& error) {
    fmt::print("a slip: {}\n", error.what());
  }
  return all_agree ? 0 : 1;
}
