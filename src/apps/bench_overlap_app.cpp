// `plait bench overlap`: a step on a wire that is slowed until its messages take half as long as the experts' products;
// how much of that hides, by number of chunks and by the order of the list.
#include <fmt/format.h>

#include <algorithm>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/statistics.h"
#include "base/table.h"
#include "base/units.h"
#include "bench/overlap.h"
#include "config/config.h"
#include "draw/timeline.h"

namespace plait {
namespace {

// The gate of hashing gives all ranks as much to send and to compute: it is the order that counts, not the balance.
constexpr const char* kSizes = R"([model]
hidden_size = 512
num_hidden_layers = 2
num_attention_heads = 4
[moe]
gate = "hash"
num_experts = 8
num_experts_per_tok = 2
moe_intermediate_size = 2048
[train]
batch_size = 8
seq_length = 256
[mesh]
ep = 2
threads = 1
[schedule]
lanes = true
)";

struct Request {
  std::string config, trace;
  std::vector<std::string> overrides;
  int64_t repeats = 3, most_chunks = 4;
  double share = 0.5, faster = 1;
  bool json = false, recompute = false;
};

struct Variant {
  int64_t chunks;
  std::string order;
  std::vector<std::string> memory = {};  // memory.recompute, memory.keep_moves
  std::vector<Overlap> steps = {};
  Overlap predicted = {};

  // The step that was disturbed least.
  const Overlap& fastest() const { return *std::ranges::min_element(steps, {}, &Overlap::step); }
  double median_share() const {
    std::vector<double> shares;
    for (const Overlap& o : steps) shares.push_back(o.hidden() / o.hideable());
    return median(shares);
  }
};

// With lanes, which are what is measured, whatever the file says.
Config config_of(const Request& request, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"schedule.lanes=true"};
  all.insert(all.end(), request.overrides.begin(), request.overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  const Config config = bench_config(request.config, {"bench overlap", kSizes}, all).config;
  if (num_ranks(config) == 1) input_error("bench overlap: one rank sends no messages; set mesh.ep or mesh.tp");
  if (!config.schedule.lanes) input_error("bench overlap measures lanes: leave out schedule.lanes=false");
  if (num_expert_layers(config) == 0) input_error("bench overlap measures rows of experts: no layer has any");
  return config;
}

Config config_of(const Request& request, const Variant& v) {
  std::vector<std::string> keys = {fmt::format("schedule.chunks={}", v.chunks), "schedule.order=" + v.order};
  keys.insert(keys.end(), v.memory.begin(), v.memory.end());
  return config_of(request, keys);
}

// What the order is made for: this machine's products, and the slowed wire.
Machine machine_of(const RecordedSteps& recorded, const WireRates& rates) {
  Machine machine = default_machine(rates.ranks_per_node);
  const Schedule& s = recorded.schedule;
  const std::vector<StepCost> costs = step_costs(s, check(s), machine);
  double flops = 0, seconds = 0;
  for (const TimeSpan& span : recorded.fastest().spans)
    if (as<Einsum>(s.steps[span.step].op)) {
      flops += costs[span.step].flops;
      seconds += span.end - span.start;
    }
  machine.flops = flops / seconds;
  const double rate[] = {rates.intra, rates.inter};
  for (size_t level = 0; level < machine.levels.size(); ++level)
    for (MessageCost& cost : machine.levels[level].cost) cost.beta = 1 / rate[level];
  return machine;
}

Timing predicted_timing(const Schedule& s, const Machine& machine) {
  return predicted(s, step_costs(s, check(s), machine), s.mesh.ranks());
}

std::string in_ms(double seconds) { return fmt::format("{:.1f}", 1e3 * seconds); }

void print_variants(const std::vector<Variant>& variants) {
  Table table({"chunks", "order", "step ms", "compute", "wire", "hideable", "hidden", "hidden/hideable", "median",
               "predicted", "replayed/measured"});
  for (const Variant& v : variants) {
    const Overlap& o = v.fastest();
    table.row({std::to_string(v.chunks), v.order, in_ms(o.step), in_ms(o.compute), in_ms(o.wire), in_ms(o.hideable()),
               in_ms(o.hidden()), percent(o.hidden() / o.hideable(), 0), percent(v.median_share(), 0),
               percent(v.predicted.hidden() / v.predicted.hideable(), 0), fmt::format("{:.3f}", o.replayed / o.step)});
  }
  fmt::print("{}", table.str());
  fmt::print(
      "compute: steps of the compute lane; wire: messages, from when the last of their group came; both a rank's mean "
      "in\nthe fastest step. hideable = min(compute, wire); hidden = compute + wire - step; predicted: hidden/hideable "
      "of the\nsame list by its costs alone. replayed: the step's own spans again, in their lanes and order.\n");
}

std::vector<Variant> variants_of(const Request& request) {
  if (request.recompute)
    return {{1, "written"},
            {1, "written", {"memory.recompute=full"}},
            {1, "written", {"memory.recompute=full", "memory.keep_moves=none"}}};
  std::vector<Variant> variants;
  for (int64_t chunks = 1; chunks <= request.most_chunks; chunks *= 2)
    for (const char* order : {"written", "overlap"}) variants.push_back({chunks, order});
  return variants;
}

// What keeping the results of messages saves where everything else is made again, measured and told in advance.
void print_recomputation(const std::vector<Variant>& variants) {
  Table table({"", "step ms", "predicted", "compute", "wire", "predicted"});
  constexpr const char* kNames[] = {"everything kept", "made again, messages kept", "made again, messages too"};
  for (size_t i = 0; i < variants.size(); ++i) {
    const Overlap &o = variants[i].fastest(), &told = variants[i].predicted;
    table.row({kNames[i], in_ms(o.step), in_ms(told.step), in_ms(o.compute), in_ms(o.wire), in_ms(told.wire)});
  }
  const double saved = variants[2].fastest().step - variants[1].fastest().step;
  const double told = variants[2].predicted.step - variants[1].predicted.step;
  fmt::print("{}\nkeeping messages saves {} ms; predicted {} ms, {} of that\n", table.str(), in_ms(saved), in_ms(told),
             percent(told / saved, 0));
}

void print_json(const std::vector<Variant>& variants) {
  for (const Variant& v : variants) {
    const Overlap& o = v.fastest();
    JsonLine json;
    json.add("chunks", v.chunks).add("order", v.order).add("step_ms", 1e3 * o.step).add("compute_ms", 1e3 * o.compute);
    json.add("wire_ms", 1e3 * o.wire).add("hidden_ms", 1e3 * o.hidden()).add("hidden_share", o.hidden() / o.hideable());
    json.add("replayed_share", o.replayed / o.step);
    fmt::print("{}\n", json.str());
  }
}

void save_trace(const std::string& path, const RecordedSteps& recorded, const Machine& machine) {
  write_text(path, chrome_trace(drawing(recorded.schedule, machine, "plait bench overlap", recorded.steps.back())));
}

}  // namespace

int bench_overlap(Arguments arguments) {
  Request request;
  CommandLine line("bench overlap", "How much of slow messages hides behind computing, by chunks and order; in turns");
  line.option("--config", request.config, "a TOML file instead of the default sizes")
      .option("--repeats", request.repeats, "of each; the fastest counts")
      .option("--chunks", request.most_chunks, "1, 2, 4, .. up to so many")
      .option("--share", request.share, "time of all messages, as a share of that of the experts' products",
              Reals{.most = 1000, .at_least = Reals::Least::refused})
      .option("--intra", request.faster, "messages within a node (mesh.node) travel so many times faster",
              Reals{.at_least = Reals::Least::refused})
      .option("--trace", request.trace, "the last step of the last variant for Perfetto or chrome://tracing")
      .flag("--recompute", request.recompute, "instead of chunks: values made again, with messages kept and sent again")
      .flag("--json", request.json, "one line a variant for programs")
      .rest("KEY=VALUE", request.overrides, "section.key=value");
  if (!line.parse(arguments)) return 0;
  std::vector<Variant> variants = variants_of(request);
  const Config first = config_of(request, variants[0]);
  const RecordedSteps fast = record_steps(first);
  const double rate = wire_rate(fast, request.share);
  const WireRates rates{request.faster * rate, rate, static_cast<int>(first.mesh.node)};
  const Machine machine = machine_of(fast, rates);
  RecordedSteps last;
  for (int64_t i = 0; i < request.repeats; ++i)
    for (Variant& v : variants) {
      last = record_steps({config_of(request, v), machine}, {.warm_up = 1, .steps = 2, .delay = delay_of(rates)});
      for (const Timeline& timeline : last.steps) v.steps.push_back(overlap(last.schedule, timeline));
      v.predicted = overlap(last.schedule, simulate(last.schedule, predicted_timing(last.schedule, machine)));
    }
  if (!request.trace.empty()) save_trace(request.trace, last, machine);
  if (request.json) {
    print_json(variants);
    return 0;
  }
  fmt::print("{} ranks with {} thread{} each, nodes of {}; {} x {} tokens; a wire of {:.0f} MB/s{}\n\n",
             num_ranks(first), first.mesh.threads, first.mesh.threads == 1 ? "" : "s", first.mesh.node,
             first.train.batch_size, first.train.seq_length, rate / 1e6,
             first.mesh.node < num_ranks(first) ? fmt::format(", {:.0f} MB/s within a node", rates.intra / 1e6) : "");
  request.recompute ? print_recomputation(variants) : print_variants(variants);
  return 0;
}

}  // namespace plait
