// The mixture-of-experts block. A family is one list of outward moves plus where tokens are split over tp; the way back
// is the transpose of that list.
#include <fmt/format.h>

#include <algorithm>

#include "layers/writer.h"
#include "schedule/typing.h"

namespace plait {
namespace {

// The dim on which a rank of this atom holds its share of the rows before they leave: a group digit, or slots.
std::string own_dim(const Writer& w, Atom atom) {
  const bool slots =
      w.sizes.capacity > 0 && w.sizes.family == Family::s2 && std::find(w.tp.begin(), w.tp.end(), atom) != w.tp.end();
  return slots ? "C" : group_dim(atom);
}

// How rows go from where they were encoded to the experts that take them.
std::vector<Legs> way_out(const Writer& w) {
  const DimOf own([&w](Atom a) { return own_dim(w, a); });
  const Legs exchange = exchange_legs(w.ep, own, "E"), gather = gather_legs(w.esp, own);
  std::vector<Legs> way;
  if (w.sizes.family == Family::s2) way.push_back(slice_legs(w.tp, own));
  if (w.sizes.family == Family::ted || w.sizes.family == Family::dtd || w.sizes.family == Family::parm) {
    way.insert(way.end(), {exchange, enter_legs(w.esp)});
  } else if (w.sizes.fuse) {
    Legs fused = exchange;
    fused.insert(fused.end(), gather.begin(), gather.end());
    way.push_back(fused);
  } else {
    way.insert(way.end(), {exchange, gather});
  }
  return way;
}

// Results back as tokens are held between blocks.
ValueId from_gate(Writer& w, ValueId y) {
  if (w.sizes.family == Family::s1) return w.b.join(y, w.tp, "T");
  if (w.sizes.family != Family::parm) return y;
  const ValueId own = w.b.slice(y, w.esp, "T");
  return w.tp.empty() ? own : w.b.add(Pick{"T", w.tp}, {own});
}

// Tokens with their routes.
struct Routed {
  ValueId tokens;
  Gated gated;
  Routing routing;
};

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

// Rows out to their experts and back.
ValueId there_and_back(Writer& w, ValueId rows, int64_t layer) {
  const std::vector<Legs> way = way_out(w);
  for (const Legs& legs : way) rows = w.b.move(rows, legs);
  rows = write_experts(w, rows, layer);
  for (auto legs = way.rbegin(); legs != way.rend(); ++legs) rows = w.b.move(rows, transpose(*legs));
  return rows;
}

// A padded buffer is cut along its slots.
ValueId through_slots(Writer& w, const Routed& r, int64_t layer) {
  const ValueId places = w.b.add(Arrange{r.routing}, {r.gated.idx, r.gated.slot}, "places");
  const ValueId rows = w.b.add(Encode{r.routing}, {r.tokens, places}, "rows");
  const int chunks = static_cast<int>(w.sizes.parts());
  std::vector<ValueId> parts = {rows};
  if (chunks > 1) parts = w.b.add_all(Split{"C", r.routing.id, chunks}, {rows}, "chunk");
  for (ValueId& part : parts) part = there_and_back(w, part, layer);
  const ValueId back = chunks > 1 ? w.b.add(Concat{"C", r.routing.id}, parts, "rows_back") : parts[0];
  return w.b.add(Decode{r.routing}, {back, r.gated.weight, places}, "moe_out");
}

// Ragged rows are cut along the tokens of each cell: chunks are disjoint sets of routes, so their outputs add.
ValueId through_rows(Writer& w, const Routed& r, int64_t layer) {
  const std::vector<ValueId> counted = w.b.add_all(Count{r.routing}, {r.gated.idx, r.gated.slot}, "count");
  std::vector<ValueId> outputs;
  for (size_t i = 1; i < counted.size(); ++i) {
    const ValueId rows = w.b.add(Encode{r.routing}, {r.tokens, counted[i]}, "rows");
    outputs.push_back(
        w.b.add(Decode{r.routing}, {there_and_back(w, rows, layer), r.gated.weight, counted[i]}, "moe_out"));
  }
  return outputs.size() == 1 ? outputs[0] : w.b.add(Add{}, outputs, "moe_out");
}

}  // namespace

MoeTerms write_moe_terms(Writer& w, ValueId normed, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const ValueId h = to_gate(w, normed);
  Routed routed{.tokens = h,
                .gated = write_gate(w, h, layer),
                .routing = {.id = fmt::format("r{}", layer), .experts = s.experts, .top_k = s.routes()}};
  routed.routing.capacity = s.capacity;
  routed.routing.group = s.capacity ? s.group : 0;
  routed.routing.chunks = s.capacity ? 1 : s.parts();
  const ValueId y = s.capacity ? through_slots(w, routed, layer) : through_rows(w, routed, layer);
  MoeTerms moe{{from_gate(w, y)}, routed.gated.sums};
  if (s.shared_experts > 0) moe.terms.push_back(write_shared_experts(w, normed, layer));
  return moe;
}

MoeOutput write_moe(Writer& w, ValueId x, int64_t layer) {
  MoeTerms moe = write_moe_terms(w, w.norm(x, layer_name(layer, "post_attention_layernorm.weight")), layer);
  moe.terms.insert(moe.terms.begin(), x);
  return {w.b.add(Add{}, moe.terms, "x"), moe.sums};
}

}  // namespace plait
