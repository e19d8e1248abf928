// The mixture-of-experts block. A family is one list of outward moves plus where tokens are split over tp; the way back
// is the transpose of that list.
#include "layers/writer.h"
#include "schedule/typing.h"

namespace plait {
namespace {

// How rows go from where they were encoded to the experts that take them.
std::vector<Legs> way_out(const Writer& w) {
  std::vector<Legs> way = {exchange_legs(w.ep, group_dim, "E")};
  way.push_back(w.sizes.family == Family::sharded ? gather_legs(w.esp, group_dim) : enter_legs(w.esp));
  return way;
}

struct Gated {
  ValueId weight, idx, slot;
  GateSums sums;
};

Gated write_gate(Writer& w, ValueId h, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const Atoms cut = s.family == Family::sharded ? w.tp : Atoms{};
  const ValueId mask = w.b.slice(w.b.schedule().find("mask"), cut, "T");
  const ValueId logits = w.product(h, layer_name(layer, "mlp.gate.weight"), {"T", "E"}, "logits");
  const Route route{s.gate, s.normalize, s.drop, s.top_k, s.capacity, s.group};
  const std::vector<ValueId> routes = w.b.add_all(route, {logits, mask}, "route");
  Gated gated{routes[0], routes[1], routes[2], {}};
  const std::vector<ValueId> load = w.b.add_all(Load{s.experts}, {gated.idx, gated.slot}, "load");
  gated.sums.chosen = load[0];
  gated.sums.kept = load[1];
  if (s.aux_coef == 0 && s.z_coef == 0) return gated;
  const std::vector<ValueId> stats = w.b.add_all(GateStats{}, {logits, mask}, "gate_stats");
  gated.sums.psum = stats[0];
  gated.sums.zsum = stats[1];
  return gated;
}

ValueId write_experts(Writer& w, ValueId rows, int64_t layer) {
  const ModelSizes& s = w.sizes;
  std::vector<std::string> hidden = w.b.type(rows).dim_names();
  hidden.pop_back();
  std::vector<std::string> out = hidden;
  out.push_back("D");
  if (s.glu) hidden.push_back("U");
  hidden.push_back("F");
  const ValueId up = w.product(rows, layer_name(layer, s.glu ? "mlp.experts.gate_up_proj" : "mlp.experts.up_proj"),
                               hidden, "expert_up");
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "expert_act");
  return w.product(act, layer_name(layer, "mlp.experts.down_proj"), out, "expert_down");
}

}  // namespace

MoeOutput write_moe(Writer& w, ValueId x, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const ValueId h = w.norm(x, layer_name(layer, "post_attention_layernorm.weight"));
  const Gated gated = write_gate(w, h, layer);
  const Routing routing{fmt::format("r{}", layer), s.experts, s.top_k, s.capacity, s.group};
  const ValueId places = s.capacity ? w.b.add(Arrange{routing}, {gated.idx, gated.slot}, "places")
                                    : w.b.add_all(Count{routing}, {gated.idx, gated.slot}, "count").back();
  ValueId rows = w.b.add(Encode{routing}, {h, places}, "rows");
  const std::vector<Legs> way = way_out(w);
  for (const Legs& legs : way) rows = w.b.move(rows, legs);
  rows = write_experts(w, rows, layer);
  for (auto legs = way.rbegin(); legs != way.rend(); ++legs) rows = w.b.move(rows, transpose(*legs));
  const ValueId y = w.b.add(Decode{routing}, {rows, gated.weight, places}, "moe_out");
  return {w.b.add(Add{}, {x, y}, "x"), gated.sums};
}

void write_gate_losses(Writer& w, const std::vector<GateSums>& layers) {
  const ModelSizes& s = w.sizes;
  const bool losses = s.aux_coef != 0 || s.z_coef != 0;
  w.b.scope("gates.");
  std::vector<ValueId> sums;
  for (const GateSums& g : layers) {
    if (losses) sums.insert(sums.end(), {g.psum, g.zsum});
    sums.insert(sums.end(), {g.chosen, g.kept});
  }
  if (sums.empty()) return;
  sums = w.b.move_all(sums, leave_legs(w.tokens));
  std::vector<ValueId> terms;
  for (auto it = sums.begin(); it != sums.end();) {
    const ValueId psum = losses ? *it++ : -1, zsum = losses ? *it++ : -1;
    w.model.chosen.push_back(*it++);
    w.model.kept.push_back(*it++);
    if (!losses) continue;
    const ValueId inv = w.b.schedule().find("inv_tokens"), share = w.b.schedule().find("share");
    terms.push_back(
        w.b.add(Balance{s.aux_coef, s.z_coef, s.top_k}, {psum, w.model.chosen.back(), zsum, inv, share}, "aux"));
  }
  if (!terms.empty()) w.model.aux = terms.size() == 1 ? terms[0] : w.b.add(Add{}, terms, "aux_total");
}

}  // namespace plait
