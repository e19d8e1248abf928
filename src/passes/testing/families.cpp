#include "passes/testing/families.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "passes/lower.h"
#include "schedule/typing.h"

namespace plait::oracle {

const std::vector<MeshSize> kLayouts = {{4, 2, 2, 2}, {8, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4},  {4, 1, 2, 2},
                                        {4, 2, 1, 4}, {8, 2, 2, 4}, {8, 4, 4, 2}, {16, 4, 2, 4}, {16, 2, 4, 2}};

const std::vector<MeshSize> kNodeLayouts = {{4, 1, 1, 4, 2}, {8, 2, 2, 4, 4}, {8, 2, 2, 4, 2},
                                            {8, 2, 4, 2, 4}, {8, 4, 2, 4, 4}, {16, 2, 2, 4, 4}};

std::string_view name(Family family) {
  constexpr std::string_view names[] = {"ted", "dtd", "s1", "s2", "sharded", "parm"};
  return names[static_cast<int>(family)];
}

std::string describe(const MeshSize& mesh) {
  return fmt::format("ranks {} tp {} esp {} ep {}{}", mesh.ranks, mesh.tp, mesh.esp, mesh.ep,
                     mesh.node ? fmt::format(" node {}", mesh.node) : "");
}

bool fits(Family family, const MeshSize& mesh) {
  return mesh.tp == mesh.esp || (family != Family::ted && family != Family::dtd);
}

namespace {

bool gates_slices(Family family) { return family == Family::s1 || family == Family::sharded; }

}  // namespace

int64_t gate_group(const Toy& toy) {
  if (toy.group) return toy.group;
  return gates_slices(toy.family) ? toy.tokens / toy.mesh.tp : toy.tokens;
}

Toy on_one_rank(const Toy& toy) {
  Toy one = toy;
  one.group = gate_group(toy);
  one.tokens = toy.tokens * (toy.mesh.ranks / toy.mesh.tp);
  one.family = Family::ted;
  one.mesh = {};
  one.chunks = 1;
  one.across = Across::direct;
  one.cells = Cells::counted;
  one.weights = Weights::whole;
  return one;
}

namespace {

class ModelBuilder {
 public:
  explicit ModelBuilder(const Toy& toy) : toy_(toy), b_(Mesh(toy.mesh), toy.precision) {
    for (Axis axis : kAxes) axis_[axis] = b_.mesh().axis(axis);
    tokens_over_ = axis_[Axis::dp];
    if (gates_slices(toy.family)) tokens_over_ = tokens_over_ + axis_[Axis::tp];
    gated_over_ = tokens_over_;
    if (toy.family == Family::parm) gated_over_ = axis_[Axis::edp] + axis_[Axis::ep];
  }

  Model run() {
    const bool sharded = toy_.family == Family::sharded;
    const Dim tokens{"T", num_tokens(), stack_of(axis_[Axis::dp])};
    const Dim outside{"T", num_tokens(), stack_of(sharded ? tokens_over_ : axis_[Axis::dp])};
    const Dim input{"Q", 4, stack_of(axis_[Axis::tp])};
    const ValueId x0 = b_.leaf(LeafKind::parameter, "x0", {tokens, input}), x0_real = cast(x0, Dtype::real);
    const ValueId c = b_.leaf(LeafKind::data, "c", {outside, {"D", toy_.width}});
    mask_ = b_.leaf(LeafKind::data, "mask", {tokens});
    mask_ = sharded ? b_.slice(mask_, axis_[Axis::tp], "T") : to_gate(mask_);
    const ValueId w0 = weight("W0", {input, {"D", toy_.width}}, Axis::dp);
    const ValueId h = b_.add(Einsum{{"T", "D"}}, {x0_real, w0}, "h");
    ValueId x = sharded ? b_.scatter(h, axis_[Axis::tp], "T") : b_.leave(h, axis_[Axis::tp]);
    Model model{.boundaries = {x}};
    for (layer_ = 0; layer_ < toy_.layers; ++layer_) {
      const ValueId y = moe(x);
      x = toy_.residual == Residual::yes ? b_.add(Add{}, {y, x}, "sum") : y;
      model.boundaries.push_back(x);
    }
    model.y = x;
    const ValueId part = b_.add(Einsum{}, {cast(x, Dtype::full), c}, "part");
    model.loss = b_.leave(part, sharded ? tokens_over_ : axis_[Axis::dp]);
    model.schedule = b_.take();
    model.schedule.outputs = {model.loss};
    return model;
  }

 private:
  bool padded() const { return toy_.capacity > 0 && toy_.buffer == Buffer::padded; }
  int64_t num_tokens() const { return toy_.tokens * b_.mesh().extent(Axis::dp); }
  std::string numbered(const char* name) const { return fmt::format("{}_{}", name, layer_); }

  ValueId cast(ValueId x, Dtype to) { return toy_.precision == Precision::mixed ? b_.add(Cast{to}, {x}) : x; }

  // A parameter used by all ranks along `over`, which also hold slices of its D when weights are sharded.
  ValueId weight(const std::string& name, std::vector<Dim> dims, Axis over) {
    const auto leaf = [&] { return cast(b_.leaf(LeafKind::parameter, name, dims), Dtype::real); };
    if (toy_.weights == Weights::whole) return b_.enter(leaf(), axis_[over]);
    for (Dim& dim : dims)
      if (dim.name == "D") dim.stack = stack_of(axis_[over]);
    return b_.gather(leaf(), axis_[over], "D");
  }

  bool in(const Atoms& atoms, Atom atom) const { return std::find(atoms.begin(), atoms.end(), atom) != atoms.end(); }

  // Legs in the order of the mesh's atoms, whatever they were listed in.
  Legs ordered(Legs legs) const {
    std::sort(legs.begin(), legs.end(), [](const Leg& a, const Leg& b) { return a.atom > b.atom; });
    return legs;
  }

  // The dim along which an atom's ranks hold different slots before the exchange.
  Place slots(Atom atom) const {
    const bool by_slot =
        padded() && (toy_.family == Family::s2 || toy_.family == Family::dtd) && in(axis_.at(Axis::tp), atom);
    return {Hold::S, by_slot ? "C" : group_dim(atom)};
  }

  // The way out to the experts; the way back is its transpose.
  std::vector<Legs> path() const {
    const auto over = [&](Axis axis, auto&& leg) {
      Legs legs;
      for (Atom a : axis_.at(axis)) legs.push_back(leg(a));
      return legs;
    };
    Legs exchange = over(Axis::ep, [&](Atom a) { return Leg{a, slots(a), {Hold::S, "E"}}; });
    if (toy_.across == Across::node)
      std::erase_if(exchange, [&](const Leg& leg) { return b_.mesh().crosses_nodes(leg.atom); });
    const Legs gather = over(Axis::esp, [&](Atom a) { return Leg{a, slots(a), {Hold::R}}; });
    const Legs cut = over(Axis::tp, [&](Atom a) { return Leg{a, {Hold::I}, slots(a)}; });
    Legs fused = exchange;
    fused.insert(fused.end(), gather.begin(), gather.end());
    switch (toy_.family) {
      case Family::ted:
      case Family::parm: return {exchange, enter_legs(axis_.at(Axis::esp))};
      case Family::dtd: return {cut, exchange, transpose(cut), enter_legs(axis_.at(Axis::esp))};
      case Family::s1: return {ordered(fused)};
      case Family::s2: return {cut, ordered(fused)};
      case Family::sharded: return {exchange, gather};
    }
    return {};
  }

  Routing routing() const {
    return {.id = numbered("rows"),
            .experts = toy_.experts,
            .top_k = toy_.top_k,
            .capacity = padded() ? toy_.capacity : 0,
            .group = padded() ? gate_group(toy_) : 0,
            .chunks = padded() ? 1 : toy_.chunks};
  }

  std::vector<ValueId> route(ValueId x) {
    const ValueId leaf = b_.leaf(LeafKind::parameter, numbered("Wg"), {{"D", toy_.width}, {"E", toy_.experts}});
    const ValueId logits = b_.add(Einsum{{"T", "E"}}, {cast(x, Dtype::full), b_.enter(leaf, gated_over_)}, "logits");
    const Route gate{.normalize = toy_.normalize,
                     .drop = toy_.drop,
                     .top_k = toy_.top_k,
                     .capacity = toy_.capacity,
                     .group = gate_group(toy_)};
    return b_.add_all(gate, {logits, mask_}, "route");
  }

  ValueId experts(ValueId rows, ValueId w1, ValueId w2) {
    for (const Legs& legs : path()) rows = b_.move(rows, legs);
    std::vector<std::string> out = b_.type(rows).dim_names();
    out.back() = "F";
    const ValueId h = b_.add(Activate{}, {b_.add(Einsum{out}, {rows, w1}, "up")}, "act");
    out.back() = "D";
    rows = b_.add(Einsum{out}, {h, w2}, "down");
    const std::vector<Legs> way = path();
    for (auto legs = way.rbegin(); legs != way.rend(); ++legs) rows = b_.move(rows, transpose(*legs));
    return rows;
  }

  ValueId moe(ValueId x) {
    const Dim experts_dim{"E", toy_.experts, stack_of(axis_[Axis::ep])},
        hidden{"F", toy_.hidden, stack_of(axis_[Axis::esp])};
    const ValueId w1 = weight(numbered("W1"), {experts_dim, {"D", toy_.width}, hidden}, Axis::edp);
    const ValueId w2 = weight(numbered("W2"), {experts_dim, hidden, {"D", toy_.width}}, Axis::edp);
    x = to_gate(x);
    const std::vector<ValueId> routes = route(x);
    const auto through = [&](ValueId rows) { return experts(rows, w1, w2); };
    return from_gate(padded() ? in_slots(x, routes, through) : in_rows(x, routes, through));
  }

  // Tokens as the gate takes them, and back.
  ValueId to_gate(ValueId x) {
    const Atoms& tp = axis_[Axis::tp];
    if (toy_.family == Family::s1) return b_.slice(x, tp, "T");
    if (toy_.family != Family::parm) return x;
    return b_.join(tp.empty() ? x : b_.add(Dup{"T", tp}, {x}), axis_[Axis::esp], "T");
  }

  ValueId from_gate(ValueId y) {
    const Atoms& tp = axis_[Axis::tp];
    if (toy_.family == Family::s1) return b_.join(y, tp, "T");
    if (toy_.family != Family::parm) return y;
    y = b_.slice(y, axis_[Axis::esp], "T");
    return tp.empty() ? y : b_.add(Pick{"T", tp}, {y});
  }

  ValueId in_slots(ValueId x, const std::vector<ValueId>& routes, auto&& through) {
    const ValueId at = b_.add(Arrange{routing()}, {routes[1], routes[2]}, "places");
    const ValueId rows = b_.add(Encode{routing()}, {x, at}, "rows");
    std::vector<ValueId> chunks = {rows}, done;
    if (toy_.chunks > 1) chunks = b_.add_all(Split{"C", numbered("cap"), toy_.chunks}, {rows}, "chunk");
    for (ValueId chunk : chunks) done.push_back(through(chunk));
    const ValueId back = toy_.chunks > 1 ? b_.add(Concat{"C", numbered("cap")}, done, "chunks") : done.front();
    return b_.add(Decode{routing()}, {back, routes[0], at}, "y");
  }

  // Chunks of ragged rows are disjoint sets of routes: their outputs add.
  ValueId in_rows(ValueId x, const std::vector<ValueId>& routes, auto&& through) {
    if (toy_.across == Across::node) return by_node(x, routes, through);
    const std::vector<ValueId> counted = counts(routing(), {routes[1], routes[2]});
    std::vector<ValueId> done;
    for (size_t i = 1; i < counted.size(); ++i) {
      const ValueId rows = b_.add(Encode{routing()}, {x, counted[i]}, "rows");
      done.push_back(b_.add(Decode{routing()}, {through(rows), routes[0], counted[i]}, "y"));
    }
    return done.size() == 1 ? done.front() : b_.add(Add{}, done, "y");
  }

  std::vector<ValueId> counts(const Routing& routing, std::vector<ValueId> routes) {
    if (toy_.cells == Cells::padded) {
      const ValueId own = b_.add(Busiest{routing}, routes, "busiest");
      Atoms agreeing = axis_[Axis::ep];
      std::erase_if(agreeing, [&](Atom a) { return b_.type(own).place(a).hold != Hold::S; });
      routes.push_back(b_.join(own, agreeing, [](Atom a) { return fmt::format("m{}", a); }));
    }
    return b_.add_all(Count{routing}, routes, "count");
  }

  // A token with its weights and experts goes once to each node; there it is encoded for the experts of the node.
  ValueId by_node(ValueId x, const std::vector<ValueId>& routes, auto&& through) {
    Atoms far = axis_[Axis::ep];
    std::erase_if(far, [&](Atom a) { return !b_.mesh().crosses_nodes(a); });
    Routing between = routing(), within{.experts = toy_.experts, .top_k = toy_.top_k};
    between.id += ".nodes";
    between.experts = b_.mesh().count(far);
    between.top_k = std::min(toy_.top_k, between.experts);
    const auto nodes = b_.add_all(Nodes{between.experts, toy_.experts}, {routes[1], routes[2]}, "nodes");
    const std::vector<ValueId> counted = counts(between, {nodes[0], nodes[1]});
    std::vector<ValueId> done;
    for (size_t i = 1; i < counted.size(); ++i) {
      std::vector<ValueId> sent;
      for (ValueId v : {x, routes[0], nodes[2]}) sent.push_back(b_.add(Encode{between}, {v, counted[i]}, "node_rows"));
      sent = b_.move_all(sent, exchange_legs(far, group_dim, "E"));
      within.id = fmt::format("{}.in{}", numbered("rows"), i);
      const auto at = b_.add_all(CountWithin{within}, {sent[2]}, "count_within");
      const ValueId back = through(b_.add(Encode{within}, {sent[0], at[1]}, "rows"));
      const ValueId sum = b_.add(Decode{within}, {back, sent[1], at[1]}, "node_y");
      done.push_back(b_.add(Decode{between}, {b_.exchange(sum, far, "E", group_dim), counted[i]}, "y"));
    }
    return done.size() == 1 ? done.front() : b_.add(Add{}, done, "y");
  }

  Toy toy_;
  Builder b_;
  std::map<Axis, Atoms> axis_;
  Atoms tokens_over_, gated_over_;
  ValueId mask_ = 0;
  int layer_ = 0;
};

}  // namespace

Model build(const Toy& toy) { return ModelBuilder(toy).run(); }

Feed feed(const Schedule& schedule, const Data& data) {
  Feed all;
  for (const Leaf& leaf : schedule.leaves) {
    const std::string& name = schedule.names[leaf.value];
    std::vector<int64_t> shape;
    for (const Dim& dim : leaf.type.dims) shape.push_back(dim.size);
    Array x = normal_array(shape, fmt::format("{}.{}", name, data.seed), 0.5);
    if (leaf.kind == LeafKind::seed) x[0] = 1;
    if (name == "mask")
      for (int64_t t = 0; t < x.size(); ++t) x[t] = data.mask[t % data.mask.size()];
    if (data.skew > 0 && (name == "x0" || name == "W0"))
      for (double& v : x.data) v = std::abs(v) + 0.1;
    if (data.skew > 0 && name.starts_with("Wg"))
      for (int64_t i = 0; i < x.size(); ++i)
        x[i] += i % shape[1] == 0 ? data.skew : i % shape[1] == 1 ? data.skew / 2 : 0;
    all[leaf.value] = {std::move(x)};
  }
  return all;
}

double max_difference(const Numbers& a, const Numbers& b) {
  double worst = std::max(std::abs(a.loss - b.loss), max_difference(a.y, b.y));
  expects(a.gradients.size() == b.gradients.size(), "gradients of the same leaves");
  for (const auto& [leaf, gradient] : a.gradients)
    worst = std::max(worst, max_difference(gradient, b.gradients.at(leaf)));
  return worst;
}

Outcome perform(const Model& model, const Data& data, Agreement agreement) {
  Outcome o{.differentiated = differentiate(model.schedule, model.loss)};
  o.lowered = lower(o.differentiated.schedule);
  o.trace = interpret(o.lowered, feed(o.lowered, data));
  const auto whole = [&](ValueId v) { return collect(o.lowered.mesh, o.trace.types[v], o.trace.values[v], agreement); };
  o.numbers.loss = whole(model.loss)[0];
  o.numbers.y = whole(model.y);
  for (const auto& [leaf, gradient] : o.differentiated.gradients)
    o.numbers.gradients[o.lowered.names[leaf]] = whole(gradient);
  return o;
}

}  // namespace plait::oracle
