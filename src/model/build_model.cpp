#include "base/errors.h"
#include "model/architectures/code.h"
#include "model/blocks/head.h"
#include "model/model.h"
#include "passes/rewrite.h"

namespace plait {
namespace {

void declare_data(Writer& w) {
  declare_integers(w, "ids");
  declare_integers(w, "targets");
  w.b.leaf(LeafKind::data, "weight", std::vector<Dim>{{"T", w.sizes.tokens(), stack_of(w.dp)}});
  if (w.sizes.moe_every > 0) declare_gate_data(w);
}

std::vector<ValueId> outputs(const Model& m) {
  std::vector<ValueId> all = {m.nll};
  if (m.aux >= 0) all.push_back(m.aux);
  all.insert(all.end(), m.chosen.begin(), m.chosen.end());
  all.insert(all.end(), m.kept.begin(), m.kept.end());
  return all;
}

void write_model(Writer& w) {
  declare_data(w);
  const WrittenModel written = code_of(*w.sizes.architecture).write(w);
  expects(w.model.scopes.back().layer < 0, "what follows the last layer starts a scope of its own");
  Model& m = w.model;
  m.nll = write_nll(w, written.logits);
  write_gate_losses(w, written.gates);
  m.loss = m.aux < 0 ? m.nll : w.b.add(Add{}, {m.nll, m.aux}, "loss");
}

}  // namespace

Model build_model(const Mesh& mesh, const ModelSizes& sizes) {
  Writer w = written(mesh, sizes, write_model);
  Schedule& s = w.b.schedule();
  s.outputs = outputs(w.model);
  w.model.schedule = sizes.family->rewrite ? sizes.family->rewrite(s) : s;
  return w.model;
}

Model build_logits(const ModelSizes& sizes) {
  Writer w = written(Mesh{}, for_evaluation(sizes), [](Writer& w) {
    declare_data(w);
    w.model.logits = w.full(code_of(*w.sizes.architecture).write(w).logits);
  });
  w.b.schedule().outputs = {w.model.logits};
  w.model.schedule = drop_unused(w.b.schedule());
  return w.model;
}

}  // namespace plait
