#include "model/blocks/gate.h"

#include "schedule/typing.h"

namespace plait {

std::string bias_name(int64_t layer) { return layer_name(layer, "mlp.gate.e_score_correction_bias"); }

namespace {

// A value of tokens that all tp ranks have, as the gate takes its tokens.
ValueId gated(Writer& w, ValueId whole) {
  switch (w.sizes.family->at_gate) {
    case FamilySpec::AtGate::all: return whole;
    case FamilySpec::AtGate::part: return w.b.slice(whole, w.tp, "T");
    case FamilySpec::AtGate::copies: break;
  }
  return w.b.join(w.tp.empty() ? whole : w.b.add(Dup{"T", w.tp}, {whole}), w.esp, "T");
}

}  // namespace

ValueId to_gate(Writer& w, ValueId x) { return w.sizes.family->cut_between() ? x : gated(w, x); }

namespace {

int copies(const Writer& w) { return w.sizes.family->copies() ? w.b.mesh().count(w.tp) : 1; }

// Sums over the tokens of the gate, each token once.
ValueId once(Writer& w, ValueId sum) { return copies(w) == 1 ? sum : w.b.add(Scale{1.0 / copies(w)}, {sum}); }

// A group of distinct tokens as the gate sees it: with those copies of them that one rank gathers.
int64_t aux_group(const Writer& w) {
  const bool with_copies = copies(w) > 1 && w.sizes.gate->loss != AuxLoss::of_each_sequence;
  return w.sizes.aux_group * (with_copies ? std::min(copies(w), w.b.mesh().count(w.esp)) : 1);
}

Route route_of(const ModelSizes& s, int64_t layer) {
  Route route{&s.route(), s.normalize, s.drop, s.routes(), s.capacity, s.group, s.rule};
  route.rule.stream = layer;
  return route;
}

ValueId data(const Writer& w, const std::string& leaf) { return w.b.schedule().find(leaf); }

// A data leaf [T] as the gate takes its tokens.
ValueId gate_data(Writer& w, const std::string& leaf) { return gated(w, data(w, leaf)); }

Parameter gate_weight(const Writer& w, int64_t layer, const char* part) {
  return in_layer(layer, {.name = part,
                          .dims = {{"E", w.sizes.experts}, {"D", w.sizes.width}},
                          .over = w.gated,
                          .dtype = Dtype::full,
                          .group = "gate"});
}

ValueId write_bias(Writer& w, int64_t layer) { return w.state(bias_name(layer), {{"E", w.sizes.experts}}); }

// What a gate chooses by: its logits, or noisy ones.
struct Scores {
  ValueId logits = -1, mask = -1, chosen_by = -1;
  GateSums sums;  // of the noise
};

Scores with_noise(Writer& w, ValueId h, Scores x, int64_t layer) {
  const ValueId spread = w.product(h, gate_weight(w, layer, "mlp.gate_noise.weight"), {"T", "E"}, "spread");
  x.chosen_by = w.b.add(Noise{layer}, {x.logits, spread, data(w, "step_key")}, "noisy");
  if (w.sizes.aux_coef == 0 || w.sizes.gate->loss != AuxLoss::variation) return x;
  const std::vector<ValueId> stats =
      w.b.add_all(NoisyStats{w.sizes.top_k}, {x.logits, spread, x.chosen_by, x.mask}, "noisy_stats");
  x.sums.importance = once(w, stats[0]);
  x.sums.load = once(w, stats[1]);
  return x;
}

Scores write_scores(Writer& w, ValueId h, int64_t layer) {
  const ModelSizes& s = w.sizes;
  Scores x{.mask = gate_data(w, "mask")};
  if (!s.gate->has_logits()) return x;
  h = w.full(h);
  if (s.jitter > 0) h = w.b.add(Jitter{s.jitter, layer}, {h, data(w, "step_key")}, "jitter");
  x.logits = x.chosen_by = w.product(h, gate_weight(w, layer, "mlp.gate.weight"), {"T", "E"}, "logits");
  return s.noise ? with_noise(w, h, x, layer) : x;
}

std::vector<ValueId> write_hash_route(Writer& w, ValueId mask) {
  const ModelSizes& s = w.sizes;
  return w.b.add_all(HashRoute{s.experts, s.top_k, s.capacity, s.group}, {gate_data(w, "ids"), mask}, "route");
}

// Whether the tokens that one rank gates are no whole gate groups.
bool cuts_groups(const Writer& w) {
  const bool part = w.sizes.family->at_gate == FamilySpec::AtGate::part;
  return part && w.sizes.group > 0 && w.sizes.tokens() / w.b.mesh().count(w.gated) % w.sizes.group != 0;
}

std::vector<ValueId> write_route(Writer& w, const Scores& x, int64_t layer) {
  const Route route = route_of(w.sizes, layer);
  std::vector<ValueId> operands = {x.chosen_by, x.mask};
  if (route.gate->bias) operands.push_back(write_bias(w, layer));
  if (route.draws()) operands.push_back(data(w, "step_key"));
  return w.b.add_all(route, operands, "route");
}

// The choice of tokens that tp ranks have in parts, made where they are whole; each rank goes on with its own.
std::vector<ValueId> write_whole_route(Writer& w, Scores x, int64_t layer) {
  x.chosen_by = w.b.join(x.chosen_by, w.tp, "T");
  x.mask = data(w, "mask");
  return w.b.move_all(write_route(w, x, layer), slice_legs(w.tp, "T"));
}

// The routes that the auxiliary loss counts: of the best scores, whatever the bias (DeepSeek-V3).
ValueId write_counted(Writer& w, const Gated& gated, const Scores& x) {
  const ModelSizes& s = w.sizes;
  const Load load{s.experts, s.aux_choices() < s.top_k ? s.aux_choices() : 0, aux_group(w)};
  std::vector<ValueId> routes = {gated.idx, gated.slot};
  if (s.route().bias) {
    const std::vector<ValueId> best = w.b.add_all(Route{.top_k = s.top_k}, {x.logits, x.mask}, "best");
    routes = {best[1], best[2]};
  }
  return w.b.add(load, routes, load.choices ? "load_first" : "load_counted");
}

GateSums write_sums(Writer& w, const Gated& gated, const Scores& x) {
  const ModelSizes& s = w.sizes;
  GateSums sums = x.sums;
  const std::vector<ValueId> load = w.b.add_all(Load{s.experts}, {gated.idx, gated.slot}, "load");
  sums.chosen = once(w, load[0]);
  sums.kept = once(w, load[1]);
  if (s.counts_apart() && s.balances()) sums.counted = once(w, write_counted(w, gated, x));
  if (!s.balances() && s.z_coef == 0) return sums;
  const GateStats op{aux_group(w), s.gate->score};
  const std::vector<ValueId> stats = w.b.add_all(op, {x.logits, x.mask}, "gate_stats");
  sums.psum = once(w, stats[0]);
  sums.zsum = once(w, stats[1]);
  return sums;
}

}  // namespace

Gated write_gate(Writer& w, ValueId h, int64_t layer) {
  const Scores x = write_scores(w, h, layer);
  const std::vector<ValueId> routes = x.logits < 0      ? write_hash_route(w, x.mask)
                                      : !cuts_groups(w) ? write_route(w, x, layer)
                                                        : write_whole_route(w, x, layer);
  Gated gated{routes[0], routes[1], routes[2], {}};
  gated.sums = write_sums(w, gated, x);
  gated.sums.layer = layer;
  if (x.logits >= 0 && w.sizes.route().bias) gated.sums.bias = write_bias(w, layer);
  return gated;
}

namespace {

// The atoms over which a value is a sum of parts.
Atoms partial(const Writer& w, ValueId v) {
  Atoms atoms;
  for (Atom atom : w.b.mesh().atoms())
    if (w.b.type(v).holds[atom] == Hold::P) atoms.push_back(atom);
  return atoms;
}

// The values of these kinds, of all layers, complete on every rank: one message for all that are held alike.
void leave_together(Writer& w, std::vector<GateSums>& layers, const std::vector<ValueId GateSums::*>& kinds) {
  std::vector<ValueId*> places;
  std::vector<ValueId> sums;
  for (GateSums& g : layers)
    for (ValueId GateSums::*kind : kinds)
      if (g.*kind >= 0) places.push_back(&(g.*kind)), sums.push_back(g.*kind);
  if (sums.empty()) return;
  sums = w.b.move_all(sums, leave_legs(partial(w, sums[0])));
  for (size_t i = 0; i < sums.size(); ++i) *places[i] = sums[i];
}

// What one layer adds to the loss; complete, or of groups of tokens a partial sum.
std::vector<ValueId> write_terms(Writer& w, const GateSums& g) {
  const ModelSizes& s = w.sizes;
  const ValueId inv = data(w, "inv_tokens"), share = data(w, "share"), load = g.counted >= 0 ? g.counted : g.chosen;
  const double aux = s.balances() ? s.aux_coef : 0;
  std::vector<ValueId> terms;
  if (g.psum >= 0)
    terms.push_back(w.b.add(Balance{aux, s.z_coef, s.aux_choices()}, {g.psum, load, g.zsum, inv, share}, "aux"));
  if (g.importance >= 0) terms.push_back(w.b.add(Variation{s.aux_coef}, {g.importance, g.load, share}, "variation"));
  return terms;
}

}  // namespace

void write_gate_losses(Writer& w, const std::vector<GateSums>& layers) {
  using G = GateSums;
  w.b.scope("gates.");
  std::vector<GateSums> sums = layers;
  if (w.sizes.aux_group > 0) {
    leave_together(w, sums, {&G::psum, &G::zsum, &G::counted});
    leave_together(w, sums, {&G::chosen, &G::kept});
  } else {
    leave_together(w, sums, {&G::psum, &G::zsum, &G::chosen, &G::kept, &G::counted, &G::importance, &G::load});
  }
  std::vector<ValueId> terms;
  for (const GateSums& g : sums) {
    w.model.moe_layers.push_back(g.layer);
    w.model.biases.push_back(g.bias);
    w.model.chosen.push_back(g.chosen);
    w.model.kept.push_back(g.kept);
    for (ValueId term : write_terms(w, g)) terms.push_back(term);
  }
  if (terms.empty()) return;
  w.model.aux = terms.size() == 1 ? terms[0] : w.b.add(Add{}, terms, "aux_total");
  w.model.aux = w.b.leave(w.model.aux, partial(w, w.model.aux));
}

}  // namespace plait
