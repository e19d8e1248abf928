// `plait bench layer`: one MoE layer in every family and with every gate, beside its matrix products alone, a plain
// layer in ATen, and, when asked for, DeepSpeed's.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "bench/layer.h"
#include "bench/layer_cases.h"
#include "bench/peer_process.h"

namespace plait {
namespace {

constexpr int64_t kFewer = 3;  // turns where there are many cases

struct Request {
  CaseChoice choice;
  int64_t repeats = 5;
  bool peers = false, breakdown = false, json = false;
};

// DeepSpeed's layer with some capacity, taking turns with ours.
class Peer {
 public:
  Peer(const LayerCase& c, const char* capacity)
      : process_({"bench/peers/deepspeed_layer", "--tokens", std::to_string(c.config.train.seq_length), "--width",
                  std::to_string(c.config.model.hidden_size), "--hidden",
                  std::to_string(c.config.moe.moe_intermediate_size), "--experts",
                  std::to_string(c.config.moe.num_experts), "--top", std::to_string(c.config.moe.num_experts_per_tok),
                  "--ranks", std::to_string(num_ranks(c.config)), "--threads", std::to_string(c.config.mesh.threads),
                  "--capacity", capacity}) {
    const JsonObject first = JsonObject::parse(process_.answer(), "DeepSpeed's driver");
    dropped = first.number("dropped");
    padded = first.number("padded");
    version = first.text("deepspeed");
  }

  void turn() { ms_.push_back(JsonObject::parse(process_.ask("go"), "DeepSpeed's driver").number("ms")); }
  double least() const { return *std::min_element(ms_.begin(), ms_.end()); }

  double dropped = 0, padded = 0;  // routes and slots of a step
  std::string version;

 private:
  PeerProcess process_;
  std::vector<double> ms_;
};

struct Measured {
  const LayerCase* which;
  LayerBench bench;
  std::vector<std::unique_ptr<Peer>> peers;  // capacity 1.0, and nothing dropped

  double faster(const Peer& peer) const { return peer.least() / bench.layer_ms; }
};

bool has_peer(const LayerCase& c) { return c.part == "shapes" && c.config.mesh.tp == 1; }

Measured measure(const LayerCase& c, const Request& request) {
  Measured m{&c, {}, {}};
  if (request.peers && has_peer(c))
    for (const char* capacity : {"1.0", "0"}) m.peers.push_back(std::make_unique<Peer>(c, capacity));
  const int64_t repeats = c.part == "shapes" ? request.repeats : std::min(request.repeats, kFewer);
  m.bench = bench_layer(c.config, {.repeats = repeats, .between = [&] {
                                     for (const auto& peer : m.peers) peer->turn();
                                   }});
  return m;
}

std::string in_ms(double value) { return fmt::format("{:.2f}", value); }

std::string what(const LayerCase& c) {
  if (c.part == "families") return c.family;
  if (c.part == "gates")
    return fmt::format("{}, {} experts, top-{}", c.gate, c.config.moe.num_experts, c.config.moe.num_experts_per_tok);
  return c.title;
}

void print_part(const std::vector<Measured>& all, const std::string& part) {
  std::vector<const Measured*> rows;
  for (const Measured& m : all)
    if (m.which->part == part) rows.push_back(&m);
  if (rows.empty()) return;
  Table table({part, "ranks", "layer ms", "products", "share", "of own thread", "gate, rows", "messages", "plain ATen",
               "faster", "MiB", "at once", "alive", "differs"});
  for (const Measured* m : rows) {
    const LayerBench& b = m->bench;
    table.row({what(*m->which), m->which->layout, in_ms(b.layer_ms), in_ms(b.products_ms), percent(b.products_share()),
               percent(b.products_cpu_ms / b.layer_cpu_ms), percent(b.share(Work::gate) + b.share(Work::rows)),
               percent(b.share(Work::messages)), in_ms(b.plain_ms), times(b.plain_ms / b.layer_ms), mib(b.taken_bytes),
               mib(b.peak_bytes), mib(b.live_bytes), fmt::format("{:.0e}", b.difference)});
  }
  if (part == "families") fmt::print("{}\n", rows.front()->which->title);
  fmt::print("{}\n", table.str());
}

void print_peers(const std::vector<Measured>& all) {
  Table table({"beside DeepSpeed", "ranks", "plait ms", "capacity 1.0", "faster", "dropped", "padded", "no drop",
               "faster", "dropped", "padded"});
  std::string version;
  for (const Measured& m : all) {
    if (m.peers.empty()) continue;
    version = m.peers[0]->version;
    std::vector<std::string> row = {m.which->title, m.which->layout, in_ms(m.bench.layer_ms)};
    for (const auto& peer : m.peers)
      row.insert(row.end(), {in_ms(peer->least()), times(m.faster(*peer)), fmt::format("{:.0f}", peer->dropped),
                             fmt::format("{:.0f}", peer->padded)});
    table.row(row);
  }
  if (version.empty()) return;
  fmt::print("{}DeepSpeed {}, the same tokens a rank and threads; routes it drops and slots it pads in a step\n\n",
             table.str(), version);
}

void print_breakdown(const Measured& m) {
  const LayerBench& b = m.bench;
  Table table({fmt::format("{}, {}, {}, {}", m.which->title, m.which->layout, m.which->family, m.which->gate), "steps",
               "ms", "own thread", "share"});
  double listed = 0;
  for (const KindTime& k : b.kinds) {
    listed += k.ms;
    table.row({k.kind, std::to_string(k.steps), in_ms(k.ms), in_ms(k.cpu_ms), percent(k.ms / b.layer_ms)});
  }
  table.row({"outside the steps", "", in_ms(b.layer_ms - listed), "", percent(1 - listed / b.layer_ms)});
  table.row({"the whole layer", "", in_ms(b.layer_ms), in_ms(b.layer_cpu_ms), "100.0%"});
  fmt::print("{}\n", table.str());
}

void print_json(const Measured& m) {
  const LayerCase& c = *m.which;
  const LayerBench& b = m.bench;
  JsonLine json;
  json.add("part", c.part).add("shape", c.shape).add("layout", c.layout).add("family", c.family).add("gate", c.gate);
  json.add("layer_ms", b.layer_ms).add("products_ms", b.products_ms).add("plain_ms", b.plain_ms);
  json.add("layer_median_ms", b.layer_median_ms).add("products_median_ms", b.products_median_ms);
  json.add("plain_median_ms", b.plain_median_ms).add("products_share", b.products_share());
  json.add("layer_cpu_ms", b.layer_cpu_ms).add("products_cpu_ms", b.products_cpu_ms);
  for (const WorkTime& w : b.work) json.add(fmt::format("of_{}_ms", name(w.work)), w.ms);
  json.add("tokens", b.tokens).add("dropped", b.dropped).add("padded", b.padded);
  json.add("taken_bytes", b.taken_bytes)
      .add("peak_bytes", b.peak_bytes)
      .add("live_bytes", b.live_bytes)
      .add("difference", b.difference);
  for (size_t i = 0; i < m.peers.size(); ++i) {
    const std::string peer = i == 0 ? "deepspeed" : "deepspeed_no_drop";
    json.add(peer + "_ms", m.peers[i]->least()).add(peer + "_dropped", m.peers[i]->dropped);
    json.add(peer + "_padded", m.peers[i]->padded);
  }
  fmt::print("{}\n", json.str());
  fflush(stdout);
}

void explain(const std::vector<Measured>& all, int64_t repeats) {
  double differs = 0;
  for (const Measured& m : all) differs = std::max(differs, m.bench.difference);
  fmt::print(
      "Forward and backward, nothing dropped (expert_choice takes its capacity); the fastest of {} turns, of families "
      "and\n"
      "gates {}. Before the turns the output and every gradient of each layer were compared with the plain layer's: "
      "they\n"
      "differ by at most {:.0e} of the largest element.\n"
      "products: the layer's matrix products and nothing else; of own thread: the same two in processor time of the "
      "first\n"
      "thread. gate, rows: routing, counts, encode, decode. plain ATen: index_select for each expert under autograd; "
      "with\n"
      "two ranks each has its share of the tokens, all experts, and sends nothing. MiB: memory that a rank ever took "
      "for\n"
      "values; at once: most of it in use; alive: what the list's liveness asks for at once.\n",
      repeats, std::min(repeats, kFewer), differs);
}

}  // namespace

int bench_layer(Arguments arguments) {
  Request request;
  CommandLine line("bench layer", "One MoE layer beside its matrix products, a plain layer in ATen, and DeepSpeed's");
  line.option("--part", request.choice.part, "only shapes, families or gates")
      .option("--shape", request.choice.shape, "only this one", Integers{.most = 3})
      .option("--layout", request.choice.layout, "only this one: \"1 rank\", \"ep 2\" or \"tp 2\"")
      .option("--family", request.choice.family, "only this one")
      .option("--gate", request.choice.gate, "only this one")
      .option("--repeats", request.repeats, "turns of each; the fastest counts")
      .flag("--peers", request.peers, "beside DeepSpeed's layer (bench/peers/README.md)")
      .flag("--breakdown", request.breakdown, "lists what every kind of step takes")
      .flag("--json", request.json, "one line a case, for programs")
      .rest("KEY=VALUE", request.choice.overrides, "section.key=value, for all cases");
  if (!line.parse(arguments)) return 0;
  const std::vector<LayerCase> cases = layer_cases(request.choice);
  std::vector<Measured> all;
  for (const LayerCase& c : cases) {
    fmt::print(stderr, "[{}/{}] {}, {}, {}, {}\n", all.size() + 1, cases.size(), c.title, c.layout, c.family, c.gate);
    all.push_back(measure(c, request));
    if (request.json) print_json(all.back());
    if (request.breakdown && !request.json) print_breakdown(all.back());
  }
  if (request.json) return 0;
  for (const char* part : {"shapes", "families", "gates"}) print_part(all, part);
  print_peers(all);
  explain(all, request.repeats);
  return 0;
}

}  // namespace plait
