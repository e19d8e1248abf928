#include "model/blocks/head.h"

#include "model/blocks/embedding.h"

namespace plait {
namespace {

// Tied, the embedding's matrix.
Parameter head_weight(const Writer& w) {
  Parameter weight = token_embedding(w);
  if (w.sizes.tied) return weight;
  weight.name = "lm_head.weight";
  weight.group = "head";
  return weight;
}

}  // namespace

ValueId write_head(Writer& w, ValueId normed) {
  return w.product(w.to_parallel(normed), head_weight(w), {"T", "V"}, "logits");
}

ValueId write_nll(Writer& w, ValueId z) {
  const ValueId logits = w.full(z);
  const auto data = [&](const char* name) { return w.b.schedule().find(name); };
  const ValueId top = w.b.join(w.b.add(RowMax{}, {logits}, "max"), w.tp, [](Atom a) { return fmt::format("m{}", a); });
  const std::vector<ValueId> sums =
      w.b.move_all(w.b.add_all(ExpSumTarget{}, {logits, top, data("targets")}, "exp_sum"), leave_legs(w.tp));
  return w.b.leave(w.b.add(Nll{}, {sums[0], sums[1], data("weight")}, "nll"), w.dp);
}

}  // namespace plait
