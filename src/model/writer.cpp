#include "model/writer.h"

#include <fmt/format.h>

#include <cmath>

namespace plait {
namespace {

std::vector<Dim> hidden_pair(const ModelSizes& s, std::vector<Dim> front, Dim hidden) {
  if (s.glu) front.push_back({"U", 2});
  front.push_back(std::move(hidden));
  front.push_back({"D", s.width});
  return front;
}

// Of the matrices that write to the residual stream.
double residual_std(const ModelSizes& s) { return 0.02 / std::sqrt(2.0 * static_cast<double>(s.layers)); }

Atoms gate_atoms(const Mesh& mesh, Family family) {
  if (family == Family::s1 || family == Family::sharded) return mesh.atoms();
  if (family != Family::parm) return mesh.axis(Axis::dp);
  Atoms atoms = mesh.axis(Axis::edp);
  return atoms + mesh.axis(Axis::ep);
}

enum class Crossing { between, within };

Atoms of_nodes(const Mesh& mesh, Atoms atoms, Crossing crossing) {
  std::erase_if(atoms, [&](Atom a) { return mesh.crosses_nodes(a) != (crossing == Crossing::between); });
  return atoms;
}

}  // namespace

std::string layer_scope(int64_t layer) { return fmt::format("l{}.", layer); }

std::string layer_name(int64_t layer, const std::string& part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

std::string bias_name(int64_t layer) { return layer_name(layer, "mlp.gate.e_score_correction_bias"); }

Writer::Writer(const Mesh& mesh, const ModelSizes& sizes, Declare what)
    : sizes(sizes),
      b(mesh, sizes.precision),
      tp(mesh.axis(Axis::tp)),
      dp(mesh.axis(Axis::dp)),
      esp(mesh.axis(Axis::esp)),
      ep(mesh.axis(Axis::ep)),
      edp(mesh.axis(Axis::edp)),
      far(of_nodes(mesh, ep, Crossing::between)),
      near(of_nodes(mesh, ep, Crossing::within)),
      tokens(sizes.family == Family::sharded ? dp + tp : dp),
      gated(gate_atoms(mesh, sizes.family)) {
  what == Declare::model ? declare() : declare_experts(0);
  load_all();
}

void Writer::declare() {
  const ModelSizes& s = sizes;
  declare({"model.embed_tokens.weight"}, {{"V", s.vocab, stack_of(tp)}, {"D", s.width}}, dp);
  for (int64_t l = 0; l < s.layers; ++l) declare_layer(l);
  declare({"model.norm.weight", 0, false, Dtype::full}, {{"D", s.width}}, tokens);
  if (!s.tied) declare({"lm_head.weight"}, {{"V", s.vocab, stack_of(tp)}, {"D", s.width}}, dp);
}

void Writer::declare_layer(int64_t l) {
  const ModelSizes& s = sizes;
  const double out_std = residual_std(s);
  const Dim d{"D", s.width}, a{"A", s.head_size()}, heads{"H", s.heads, stack_of(tp)},
      kv{"J", s.kv_heads, stack_of(tp)};
  declare({layer_name(l, "input_layernorm.weight"), 0, false, Dtype::full}, {d}, tokens);
  declare({layer_name(l, "self_attn.q_proj.weight")}, {heads, a, d}, dp);
  declare({layer_name(l, "self_attn.k_proj.weight")}, {kv, a, d}, dp);
  declare({layer_name(l, "self_attn.v_proj.weight")}, {kv, a, d}, dp);
  declare({layer_name(l, "self_attn.o_proj.weight"), out_std}, {d, heads, a}, dp);
  declare({layer_name(l, "post_attention_layernorm.weight"), 0, false, Dtype::full}, {d}, tokens);
  const std::string up = s.glu ? "gate_up_proj" : "up_proj";
  if (!s.has_experts(l)) {
    const Dim f{"F", s.ffn, stack_of(tp)};
    declare({layer_name(l, "mlp." + up + ".weight")}, hidden_pair(s, {}, f), dp);
    declare({layer_name(l, "mlp.down_proj.weight"), out_std}, {d, f}, dp);
    return;
  }
  declare_experts(l);
}

void Writer::declare_experts(int64_t l) {
  const ModelSizes& s = sizes;
  const std::string up = s.glu ? "gate_up_proj" : "up_proj";
  const double out_std = residual_std(s);
  const Dim d{"D", s.width};
  const Dim e{"E", s.experts, stack_of(ep)}, f{"F", s.expert_ffn, stack_of(esp)};
  const auto gate = [&](const char* name) {
    declare({.name = layer_name(l, name), .dtype = Dtype::full}, {{"E", s.experts}, d}, gated);
  };
  if (s.gate->has_logits()) gate("mlp.gate.weight");
  if (s.gate->noise) gate("mlp.gate_noise.weight");
  if (s.route().bias) b.leaf(LeafKind::state, bias_name(l), std::vector<Dim>{{"E", s.experts}});
  declare({layer_name(l, "mlp.experts." + up)}, hidden_pair(s, {e}, f), edp);
  declare({layer_name(l, "mlp.experts.down_proj"), out_std}, {e, d, f}, edp);
  if (s.shared_experts == 0) return;
  const Dim shared{"F", s.shared_experts * s.expert_ffn, stack_of(tp)};
  declare({layer_name(l, "mlp.shared_experts." + up + ".weight")}, hidden_pair(s, {}, shared), dp);
  declare({layer_name(l, "mlp.shared_experts.down_proj.weight"), out_std}, {d, shared}, dp);
}

namespace {

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

// "model.layers.3." of the name of a layer's parameter, else empty.
std::string layer_of(const std::string& name) {
  const std::string layers = "model.layers.";
  return name.starts_with(layers) ? name.substr(0, name.find('.', layers.size()) + 1) : "";
}

}  // namespace

void Writer::declare(Parameter p, std::vector<Dim> dims, const Atoms& over) {
  const bool shared = sizes.zero != Zero::none && !over.empty();
  b.leaf(LeafKind::parameter, p.name, shared ? std::vector<Dim>{packed(b.mesh(), dims, over)} : dims);
  const bool casts = sizes.precision == Precision::mixed && p.dtype == Dtype::real;
  const Load group{sizes.zero == Zero::parameters ? layer_of(p.name) : "", over, casts ? Dtype::real : Dtype::full};
  loads_[group].push_back(p.name);
  load_of_[p.name] = group;
  dims_[p.name] = p.dims = std::move(dims);
  model.parameters.push_back(std::move(p));
}

void Writer::load(const Load& group) {
  const std::vector<std::string>& names = loads_.at(group);
  const bool shared = sizes.zero != Zero::none && !group.over.empty();
  std::vector<ValueId> used;
  for (const std::string& name : names) {
    const ValueId leaf = b.schedule().find(name);
    used.push_back(group.dtype == Dtype::real ? b.add(Cast{Dtype::real}, {leaf}, name + ".real") : leaf);
  }
  const std::vector<ValueId> moved = b.move_all(used, shared ? gather_legs(group.over, "Z") : enter_legs(group.over));
  for (size_t i = 0; i < names.size(); ++i)
    loaded_[names[i]] = shared ? b.add(Unpack{dims_.at(names[i])}, {moved[i]}, names[i] + ".whole") : moved[i];
}

void Writer::load_all() {
  if (sizes.zero == Zero::parameters) return;
  for (const auto& [group, names] : loads_) load(group);
  model.num_prologue = static_cast<int>(b.schedule().steps.size());
}

void Writer::begin(const std::string& scope) {
  b.scope(scope);
  if (sizes.zero == Zero::parameters) loaded_.clear();
}

ValueId Writer::parameter(const std::string& name) {
  if (!loaded_.count(name)) load(load_of_.at(name));
  return loaded_.at(name);
}

ValueId Writer::to_parallel(ValueId x) {
  return sizes.family == Family::sharded ? b.gather(x, tp, "T") : b.enter(x, tp);
}
ValueId Writer::from_parallel(ValueId x) {
  return sizes.family == Family::sharded ? b.scatter(x, tp, "T") : b.leave(x, tp);
}

ValueId Writer::full(ValueId x) {
  return b.type(x).dtype == Dtype::real && sizes.precision == Precision::mixed ? b.add(Cast{Dtype::full}, {x}) : x;
}

ValueId Writer::norm(ValueId x, const std::string& gain) {
  return b.add(RmsNorm{sizes.norm_eps}, {x, parameter(gain)}, "norm");
}

ValueId Writer::product(ValueId x, const std::string& weight, std::vector<std::string> out, const std::string& name) {
  return b.add(Einsum{std::move(out)}, {x, parameter(weight)}, name);
}

}  // namespace plait
