#include "model/moe_layer.h"

#include "base/errors.h"
#include "model/architectures/code.h"
#include "model/chunks.h"
#include "passes/differentiate.h"
#include "passes/lower.h"

namespace plait {
namespace {

ValueId declare_tokens(Writer& w) {
  Type x{.dims = {{"T", w.sizes.tokens(), stack_of(w.tokens)}, {"D", w.sizes.width}},
         .holds = std::vector<Hold>(w.b.mesh().num_atoms(), Hold::I)};
  for (Atom a : w.tokens) x.holds[a] = Hold::S;
  return w.b.leaf(LeafKind::data, "x", x);
}

}  // namespace

MoeLayer build_moe_layer(const Mesh& mesh, const ModelSizes& sizes) {
  const ArchitectureCode& code = code_of(*sizes.architecture);
  expects(code.moe && sizes.layers == 1 && sizes.has_experts(0), "build_moe_layer: one layer, with experts");
  MoeLayer layer;
  Writer w = written(mesh, sizes, [&](Writer& w) {
    const ValueId x = declare_tokens(w);
    if (!sizes.gate->has_logits()) declare_integers(w, "ids");
    declare_gate_data(w);
    w.begin("layer.");
    const MoeTerms moe = code.moe(w, x, 0);
    layer.y = moe.terms.size() == 1 ? moe.terms[0] : w.b.add(Add{}, moe.terms, "y");
    write_gate_losses(w, {moe.sums});
  });
  layer.parameters = w.model.parameters;
  layer.chosen = w.model.chosen[0];
  layer.kept = w.model.kept[0];
  std::vector<Root> roots = {{layer.y, "dy", LeafKind::data}};
  Schedule forward = w.b.take();
  forward.outputs = {layer.chosen, layer.kept};
  if (const ValueId aux = w.model.aux; aux >= 0) {
    forward.outputs.push_back(aux);
    roots.push_back({aux});
  }
  if (sizes.family->rewrite) forward = sizes.family->rewrite(forward);
  Differentiated d = in_chunks(differentiate(forward, roots), sizes);
  d.schedule.repeat = Repeat{d.num_forward, d.num_forward, 1};
  for (const auto& [leaf, gradient] : d.gradients) layer.gradients[d.schedule.names[leaf]] = gradient;
  layer.schedule = lower(d.schedule);
  return layer;
}

}  // namespace plait
