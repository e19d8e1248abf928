// A family is one list of outward moves plus where tokens are split over tp; the way back is the transpose of that
// list.
#include "model/blocks/moe.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/blocks/feed_forward.h"
#include "schedule/typing.h"

namespace plait {
namespace {

bool slices_rows(const ModelSizes& s) { return s.family->cuts_rows() && (s.slice_rows || s.slots() > 0); }

// What `hoist` makes of that: each rank encodes its slice of the gated tokens, and joins tokens instead of their rows.
bool slices_tokens(const ModelSizes& s) { return s.family->cuts_rows() && !slices_rows(s); }

// The dim on which a rank of this atom holds its share of the rows before they leave: a group digit, or slots.
std::string own_dim(const Writer& w, Atom atom) {
  const bool slots =
      w.sizes.slots() > 0 && w.sizes.family->cuts_rows() && std::find(w.tp.begin(), w.tp.end(), atom) != w.tp.end();
  return slots ? "C" : group_dim(atom);
}

// How rows go from where they were encoded to the experts that take them; `crossed`: from their node on.
enum class Crossed { no, yes };
std::vector<Legs> way_out(const Writer& w, Crossed crossed) {
  const bool levels = w.sizes.dispatch == Dispatch::levels && !w.far.empty();
  return w.sizes.family->way_out({.tp = w.tp,
                                  .esp = w.esp,
                                  .far = levels ? w.far : Atoms{},
                                  .ep = levels || crossed == Crossed::yes ? w.near : w.ep,
                                  .own = [&w](Atom a) { return own_dim(w, a); },
                                  .cuts = slices_rows(w.sizes),
                                  .fuses = w.sizes.fuse});
}

// Results back as tokens are held between blocks.
ValueId from_gate(Writer& w, ValueId y) {
  const FamilySpec& family = *w.sizes.family;
  const bool sliced = family.at_gate == FamilySpec::AtGate::part && !family.cut_between();
  if (sliced || slices_tokens(w.sizes)) return w.b.join(y, w.tp, "T");
  if (!family.copies()) return y;
  const ValueId own = w.b.slice(y, w.esp, "T");
  return w.tp.empty() ? own : w.b.add(Pick{"T", w.tp}, {own});
}

// Tokens with their routes.
struct Routed {
  ValueId tokens;
  Gated gated;
  Routing routing;
};

// In one step: the way back is one message.
void slice_tokens(Writer& w, Routed& r) {
  const std::vector<ValueId> own =
      w.b.move_all({r.tokens, r.gated.weight, r.gated.idx, r.gated.slot}, slice_legs(w.tp, "T"));
  r.tokens = own[0];
  r.gated.weight = own[1];
  r.gated.idx = own[2];
  r.gated.slot = own[3];
}

// `p`: name, dims and init.
Parameter expert_weight(const Writer& w, int64_t layer, Parameter p) {
  p.name = "mlp.experts." + p.name;
  p.over = w.edp;
  p.group = "experts";
  p.routed = true;
  return in_layer(layer, std::move(p));
}

ValueId write_experts(Writer& w, ValueId rows, int64_t layer) {
  const ModelSizes& s = w.sizes;
  std::vector<std::string> hidden = w.b.type(rows).dim_names();
  hidden.pop_back();
  std::vector<std::string> out = hidden;
  out.push_back("D");
  if (s.glu) hidden.push_back("U");
  hidden.push_back("F");
  const Dim e{"E", s.experts, stack_of(w.ep)}, f{"F", s.expert_ffn, stack_of(w.esp)}, d{"D", s.width};
  const ValueId up = w.product(rows, expert_weight(w, layer, {up_name(s), up_dims(s, {e}, f)}), hidden, "expert_up");
  const ValueId act = w.b.add(Activate{s.act, s.glu}, {up}, "expert_act");
  return w.product(act, expert_weight(w, layer, {"down_proj", {e, d, f}, {}, residual_init(s)}), out, "expert_down");
}

// Rows out to their experts and back.
ValueId there_and_back(Writer& w, ValueId rows, int64_t layer, Crossed crossed = Crossed::no) {
  const std::vector<Legs> way = way_out(w, crossed);
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

// Tokens to rows by the places, through the experts, and back. `places` are those of one chunk.
ValueId direct(Writer& w, const Routed& r, ValueId places, int64_t layer) {
  const ValueId rows = w.b.add(Encode{r.routing}, {r.tokens, places}, "rows");
  return w.b.add(Decode{r.routing}, {there_and_back(w, rows, layer), r.gated.weight, places}, "moe_out");
}

// How a token goes once to each node that has experts of it: which nodes, and where each of its rows lies.
struct ByNode {
  Routing routing;
  ValueId kept = -1;  // experts of the routes that count
};

// A token goes to a node with all its weights and experts, in one message; there it is encoded once more, for the
// experts of the node. What they give is summed by the token's weights before it goes back.
ValueId by_node(Writer& w, const Routed& r, const ByNode& nodes, ValueId places, int64_t layer) {
  std::vector<ValueId> sent;
  for (ValueId v : {r.tokens, r.gated.weight, nodes.kept})
    sent.push_back(w.b.add(Encode{nodes.routing}, {v, places}, "node_rows"));
  const Legs across = exchange_legs(w.far, group_dim, "E");
  const std::vector<ValueId> there = w.b.move_all(sent, across);
  Routing within{.experts = r.routing.experts, .top_k = r.routing.top_k};
  within.id = fmt::format("{}.in{}", r.routing.id, w.b.type(places).chunk);
  const std::vector<ValueId> at = w.b.add_all(CountWithin{within}, {there[2]}, "count_within");
  const ValueId rows = w.b.add(Encode{within}, {there[0], at[1]}, "rows");
  const ValueId back = there_and_back(w, rows, layer, Crossed::yes);
  const ValueId sum = w.b.add(Decode{within}, {back, there[1], at[1]}, "node_out");
  return w.b.add(Decode{nodes.routing}, {w.b.move(sum, transpose(across)), places}, "moe_out");
}

// (table, places of each chunk); padded: after the busiest ranks of ep have agreed on the rows of a cell.
std::vector<ValueId> count(Writer& w, const Routing& routing, std::vector<ValueId> routes) {
  if (w.sizes.pad_rows) {
    const ValueId own = w.b.add(Busiest{routing}, routes, "busiest");
    Atoms agreeing = w.ep;
    std::erase_if(agreeing, [&](Atom a) { return w.b.type(own).place(a).hold != Hold::S; });
    routes.push_back(w.b.join(own, agreeing, [](Atom a) { return fmt::format("m{}", a); }));
  }
  return w.b.add_all(Count{routing}, routes, "count");
}

// Ragged rows are cut along the tokens of each cell: chunks are disjoint sets of routes, so their outputs add.
ValueId through_rows(Writer& w, const Routed& r, int64_t layer) {
  const bool nodes = w.sizes.dispatch == Dispatch::node && !w.far.empty();
  ByNode to{r.routing};
  std::vector<ValueId> routes = {r.gated.idx, r.gated.slot};
  if (nodes) {
    to.routing.id += ".nodes";
    to.routing.experts = w.b.mesh().count(w.far);
    to.routing.top_k = std::min(r.routing.top_k, to.routing.experts);
    routes = w.b.add_all(Nodes{to.routing.experts, r.routing.experts}, routes, "nodes");
    to.kept = routes[2];
    routes.pop_back();
  }
  const std::vector<ValueId> counted = count(w, to.routing, routes);
  std::vector<ValueId> outputs;
  for (size_t i = 1; i < counted.size(); ++i)
    outputs.push_back(nodes ? by_node(w, r, to, counted[i], layer) : direct(w, r, counted[i], layer));
  return outputs.size() == 1 ? outputs[0] : w.b.add(Add{}, outputs, "moe_out");
}

}  // namespace

MoeTerms write_moe(Writer& w, ValueId normed, int64_t layer) {
  const ModelSizes& s = w.sizes;
  const ValueId h = to_gate(w, normed);
  Routed routed{.tokens = h,
                .gated = write_gate(w, h, layer),
                .routing = {.id = fmt::format("r{}", layer), .experts = s.experts, .top_k = s.routes()}};
  if (slices_tokens(s)) slice_tokens(w, routed);
  routed.routing.capacity = s.slots();
  routed.routing.group = s.slots() ? s.group : 0;
  routed.routing.chunks = s.slots() ? 1 : s.parts();
  const ValueId y = s.slots() ? through_slots(w, routed, layer) : through_rows(w, routed, layer);
  MoeTerms moe{{from_gate(w, y)}, routed.gated.sums};
  if (s.shared_experts > 0) moe.terms.push_back(write_shared_experts(w, normed, layer));
  return moe;
}

}  // namespace plait
