#include "layers/writer.h"

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

}  // namespace

std::string layer_name(int64_t layer, const std::string& part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

std::string bias_name(int64_t layer) { return layer_name(layer, "mlp.gate.e_score_correction_bias"); }

Writer::Writer(const Mesh& mesh, const ModelSizes& sizes, Declare what)
    : sizes(sizes),
      b(mesh),
      tp(mesh.axis(Axis::tp)),
      dp(mesh.axis(Axis::dp)),
      esp(mesh.axis(Axis::esp)),
      ep(mesh.axis(Axis::ep)),
      edp(mesh.axis(Axis::edp)),
      tokens(sizes.family == Family::sharded ? dp + tp : dp),
      gated(gate_atoms(mesh, sizes.family)) {
  what == Declare::model ? declare() : declare_experts(0);
  enter_all();
}

void Writer::declare() {
  const ModelSizes& s = sizes;
  declare({"model.embed_tokens.weight"}, {{"V", s.vocab, stack_of(tp)}, {"D", s.width}}, dp);
  for (int64_t l = 0; l < s.layers; ++l) declare_layer(l);
  declare({"model.norm.weight", 0, false}, {{"D", s.width}}, tokens);
  if (!s.tied) declare({"lm_head.weight"}, {{"V", s.vocab, stack_of(tp)}, {"D", s.width}}, dp);
}

void Writer::declare_layer(int64_t l) {
  const ModelSizes& s = sizes;
  const double out_std = residual_std(s);
  const Dim d{"D", s.width}, a{"A", s.head_size()}, heads{"H", s.heads, stack_of(tp)},
      kv{"J", s.kv_heads, stack_of(tp)};
  declare({layer_name(l, "input_layernorm.weight"), 0, false}, {d}, tokens);
  declare({layer_name(l, "self_attn.q_proj.weight")}, {heads, a, d}, dp);
  declare({layer_name(l, "self_attn.k_proj.weight")}, {kv, a, d}, dp);
  declare({layer_name(l, "self_attn.v_proj.weight")}, {kv, a, d}, dp);
  declare({layer_name(l, "self_attn.o_proj.weight"), out_std}, {d, heads, a}, dp);
  declare({layer_name(l, "post_attention_layernorm.weight"), 0, false}, {d}, tokens);
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
  if (s.gate != Gate::hash) declare({layer_name(l, "mlp.gate.weight")}, {{"E", s.experts}, d}, gated);
  if (s.gate == Gate::sigmoid) b.leaf(LeafKind::state, bias_name(l), std::vector<Dim>{{"E", s.experts}});
  declare({layer_name(l, "mlp.experts." + up)}, hidden_pair(s, {e}, f), edp);
  declare({layer_name(l, "mlp.experts.down_proj"), out_std}, {e, d, f}, edp);
  if (s.shared_experts == 0) return;
  const Dim shared{"F", s.shared_experts * s.expert_ffn, stack_of(tp)};
  declare({layer_name(l, "mlp.shared_experts." + up + ".weight")}, hidden_pair(s, {}, shared), dp);
  declare({layer_name(l, "mlp.shared_experts.down_proj.weight"), out_std}, {d, shared}, dp);
}

void Writer::declare(Parameter p, std::vector<Dim> dims, const Atoms& over) {
  b.leaf(LeafKind::parameter, p.name, std::move(dims));
  by_atoms_[over].push_back(p.name);
  model.parameters.push_back(std::move(p));
}

// All parameters entered over the same atoms share one step, so their gradients share one message.
void Writer::enter_all() {
  for (const auto& [atoms, names] : by_atoms_) {
    std::vector<ValueId> leaves;
    for (const std::string& name : names) leaves.push_back(b.schedule().find(name));
    const std::vector<ValueId> entered = b.move_all(leaves, enter_legs(atoms));
    for (size_t i = 0; i < names.size(); ++i) entered_[names[i]] = entered[i];
  }
  model.num_prologue = static_cast<int>(b.schedule().steps.size());
}

ValueId Writer::to_parallel(ValueId x) {
  return sizes.family == Family::sharded ? b.gather(x, tp, "T") : b.enter(x, tp);
}
ValueId Writer::from_parallel(ValueId x) {
  return sizes.family == Family::sharded ? b.scatter(x, tp, "T") : b.leave(x, tp);
}

ValueId Writer::norm(ValueId x, const std::string& gain) {
  return b.add(RmsNorm{sizes.norm_eps}, {x, parameter(gain)}, "norm");
}

ValueId Writer::product(ValueId x, const std::string& weight, std::vector<std::string> out, const std::string& name) {
  return b.add(Einsum{std::move(out)}, {x, parameter(weight)}, name);
}

}  // namespace plait
