#include "model/writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/errors.h"

namespace plait {
namespace {

enum class Crossing { between, within };

Atoms of_nodes(const Mesh& mesh, Atoms atoms, Crossing crossing) {
  std::erase_if(atoms, [&](Atom a) { return mesh.crosses_nodes(a) != (crossing == Crossing::between); });
  return atoms;
}

// One dim Z in which the ranks of `shares` have equal shares of what a rank would hold with these dims.
Dim packed(const Mesh& mesh, const std::vector<Dim>& dims, const Atoms& shares) {
  Dim z{.name = "Z", .size = 1};
  int64_t elements = 1;
  for (const Dim& dim : dims) {
    elements *= local_size(mesh, dim);
    z.stack.insert(z.stack.end(), dim.stack.begin(), dim.stack.end());
  }
  const int64_t ranks = mesh.count(shares);
  z.size = (elements + ranks - 1) / ranks * ranks;
  for (const Mark& mark : z.stack) z.size *= mesh.size(mark.atom);
  const std::vector<Mark> marks = stack_of(shares);
  z.stack.insert(z.stack.end(), marks.begin(), marks.end());
  return z;
}

}  // namespace

Writer::Writer(const Mesh& mesh, const ModelSizes& sizes, const std::vector<Declaration>& declared)
    : sizes(sizes),
      b(mesh, sizes.precision),
      tp(mesh.axis(Axis::tp)),
      dp(mesh.axis(Axis::dp)),
      esp(mesh.axis(Axis::esp)),
      ep(mesh.axis(Axis::ep)),
      edp(mesh.axis(Axis::edp)),
      far(of_nodes(mesh, ep, Crossing::between)),
      near(of_nodes(mesh, ep, Crossing::within)),
      tokens(sizes.family->cut_between() ? dp + tp : dp),
      gated(sizes.family->gate_atoms(mesh)) {
  for (const Declaration& d : declared) declare(d);
  if (sizes.zero == Zero::parameters) return;
  for (const auto& [kind, alike] : loads_) load(alike);
  model.num_prologue = static_cast<int>(b.schedule().steps.size());
}

Writer::Load Writer::load_of(const Parameter& p) const {
  const bool casts = sizes.precision == Precision::mixed && p.dtype == Dtype::real;
  return {sizes.zero == Zero::parameters ? p.layer : -1, p.over, casts ? Dtype::real : Dtype::full};
}

bool Writer::shares(const Parameter& p) const { return sizes.zero != Zero::none && !p.over.empty(); }

void Writer::declare(const Declaration& d) {
  const Parameter& p = d.leaf;
  const bool trained = d.kind == LeafKind::parameter;
  const ValueId leaf =
      b.leaf(d.kind, p.name, trained && shares(p) ? std::vector<Dim>{packed(b.mesh(), p.dims, p.over)} : p.dims);
  declared_.push_back(d);
  known_[p.name] = {p, leaf};
  if (!trained) return;
  loads_[load_of(p)].push_back(p.name);
  model.parameters.push_back(p);
}

void Writer::load(const std::vector<std::string>& alike) {
  const Parameter& one = known_.at(alike.front()).leaf;
  const Load how = load_of(one);
  std::vector<ValueId> used;
  for (const std::string& name : alike) {
    const ValueId leaf = known_.at(name).value;
    used.push_back(how.dtype == Dtype::real ? b.add(Cast{Dtype::real}, {leaf}, name + ".real") : leaf);
  }
  const std::vector<ValueId> moved = b.move_all(used, shares(one) ? gather_legs(how.over, "Z") : enter_legs(how.over));
  for (size_t i = 0; i < alike.size(); ++i)
    loaded_[alike[i]] =
        shares(one) ? b.add(Unpack{known_.at(alike[i]).leaf.dims}, {moved[i]}, alike[i] + ".whole") : moved[i];
}

void Writer::begin(const std::string& scope, int64_t layer) {
  b.scope(scope);
  model.scopes.push_back({layer, static_cast<ValueId>(b.schedule().names.size())});
  if (sizes.zero == Zero::parameters) loaded_.clear();
}

void Writer::begin(const std::string& scope) { begin(scope, -1); }

void Writer::begin_layer(int64_t layer) { begin(fmt::format("l{}.", layer), layer); }

ValueId Writer::parameter(const Parameter& p) {
  const auto known = known_.find(p.name);
  if (known == known_.end()) {
    declare({LeafKind::parameter, p});
    load({p.name});
    return loaded_.at(p.name);
  }
  expects(known->second.leaf == p, "a parameter is declared alike wherever it is read");
  if (!loaded_.count(p.name)) load(loads_.at(load_of(p)));
  return loaded_.at(p.name);
}

ValueId Writer::state(const std::string& name, const std::vector<Dim>& dims) {
  if (!known_.count(name)) declare({LeafKind::state, {.name = name, .dims = dims}});
  return known_.at(name).value;
}

ValueId Writer::to_parallel(ValueId x) { return sizes.family->cut_between() ? b.gather(x, tp, "T") : b.enter(x, tp); }
ValueId Writer::from_parallel(ValueId x) {
  return sizes.family->cut_between() ? b.scatter(x, tp, "T") : b.leave(x, tp);
}

ValueId Writer::full(ValueId x) {
  return b.type(x).dtype == Dtype::real && sizes.precision == Precision::mixed ? b.add(Cast{Dtype::full}, {x}) : x;
}

ValueId Writer::product(ValueId x, const Parameter& weight, std::vector<std::string> out, const std::string& name) {
  return b.add(Einsum{std::move(out)}, {x, parameter(weight)}, name);
}

Writer written(const Mesh& mesh, const ModelSizes& sizes, const std::function<void(Writer&)>& write) {
  Writer first(mesh, sizes);
  write(first);
  Writer second(mesh, sizes, first.declared());
  write(second);
  return second;
}

Init residual_init(const ModelSizes& s) { return Normal{0.02 / std::sqrt(2.0 * static_cast<double>(s.layers))}; }

void declare_integers(Writer& w, const char* name) {
  Type t{.dims = {{"T", w.sizes.tokens(), stack_of(w.dp)}},
         .holds = std::vector<Hold>(w.b.mesh().num_atoms(), Hold::I),
         .dtype = Dtype::integer,
         .grad = false};
  for (Atom a : w.dp) t.holds[a] = Hold::S;
  w.b.leaf(LeafKind::data, name, t);
}

void declare_gate_data(Writer& w) {
  const ModelSizes& s = w.sizes;
  declare_integers(w, "mask");
  if (s.draws()) {
    const std::vector<Hold> everywhere(w.b.mesh().num_atoms(), Hold::I);
    w.b.leaf(LeafKind::data, "step_key", Type{.holds = everywhere, .dtype = Dtype::integer, .grad = false});
  }
  if (s.aux_coef == 0 && s.z_coef == 0) return;
  w.b.leaf(LeafKind::data, "inv_tokens", std::vector<Dim>{});
  w.b.leaf(LeafKind::data, "share", std::vector<Dim>{});
}

}  // namespace plait
