#include "model/model.h"
#include "model/writer.h"
#include "passes/rewrite.h"
#include "schedule/typing.h"

namespace plait {
namespace {

void declare_data(Writer& w) {
  declare_integers(w, "ids");
  declare_integers(w, "targets");
  w.b.leaf(LeafKind::data, "weight", std::vector<Dim>{{"T", w.sizes.tokens(), stack_of(w.dp)}});
  if (w.sizes.moe_every > 0) declare_gate_data(w);
}

// Embedding and layers: [T, D] before the last norm, and what the gates leave.
struct Body {
  ValueId x;
  std::vector<GateSums> gates;
};

Body write_body(Writer& w) {
  w.begin("embed.");
  const ValueId embedded =
      w.b.add(Embed{}, {w.parameter("model.embed_tokens.weight"), w.b.schedule().find("ids")}, "rows");
  Body body{w.from_parallel(embedded), {}};
  for (int64_t l = 0; l < w.sizes.layers; ++l) {
    w.begin(layer_scope(l));
    body.x = write_attention(w, body.x, l);
    if (!w.sizes.has_experts(l)) {
      body.x = write_feed_forward(w, body.x, l);
      continue;
    }
    const MoeOutput moe = write_moe(w, body.x, l);
    body.x = moe.y;
    body.gates.push_back(moe.sums);
  }
  return body;
}

}  // namespace

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

ValueId write_head(Writer& w, ValueId x) {
  w.begin("head.");
  const ValueId h = w.to_parallel(w.norm(x, "model.norm.weight"));
  return w.product(h, w.sizes.tied ? "model.embed_tokens.weight" : "lm_head.weight", {"T", "V"}, "logits");
}

ValueId write_nll(Writer& w, ValueId z) {
  const ValueId logits = w.full(z);
  const auto data = [&](const char* name) { return w.b.schedule().find(name); };
  const ValueId top = w.b.join(w.b.add(RowMax{}, {logits}, "max"), w.tp, [](Atom a) { return fmt::format("m{}", a); });
  const std::vector<ValueId> sums =
      w.b.move_all(w.b.add_all(ExpSumTarget{}, {logits, top, data("targets")}, "exp_sum"), leave_legs(w.tp));
  return w.b.leave(w.b.add(Nll{}, {sums[0], sums[1], data("weight")}, "nll"), w.dp);
}

Model build_model(const Mesh& mesh, const ModelSizes& sizes) {
  Writer w(mesh, sizes);
  declare_data(w);
  const Body body = write_body(w);
  Model& m = w.model;
  m.nll = write_nll(w, write_head(w, body.x));
  write_gate_losses(w, body.gates);
  m.loss = m.aux < 0 ? m.nll : w.b.add(Add{}, {m.nll, m.aux}, "loss");
  Schedule& s = w.b.schedule();
  s.outputs = {m.nll};
  if (m.aux >= 0) s.outputs.push_back(m.aux);
  s.outputs.insert(s.outputs.end(), m.chosen.begin(), m.chosen.end());
  s.outputs.insert(s.outputs.end(), m.kept.begin(), m.kept.end());
  m.schedule = sizes.family == Family::dtd ? drop_duplicates(s, Axis::tp) : s;
  return m;
}

Model build_logits(const ModelSizes& sizes) {
  ModelSizes alone = without_draws(sizes);
  alone.aux_coef = alone.z_coef = 0;
  alone.aux_group = 0;
  Writer w(Mesh{}, alone);
  declare_data(w);
  const Body body = write_body(w);
  w.model.logits = w.full(write_head(w, body.x));
  w.b.schedule().outputs = {w.model.logits};
  w.model.schedule = drop_unused(w.b.schedule());
  return w.model;
}

}  // namespace plait
