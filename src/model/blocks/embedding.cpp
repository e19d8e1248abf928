#include "model/blocks/embedding.h"

namespace plait {

Parameter token_embedding(const Writer& w) {
  return {.name = "model.embed_tokens.weight",
          .dims = {{"V", w.sizes.vocab, stack_of(w.tp)}, {"D", w.sizes.width}},
          .over = w.dp,
          .group = "embedding"};
}

ValueId write_embedding(Writer& w) {
  return w.from_parallel(w.b.add(Embed{}, {w.parameter(token_embedding(w)), w.b.schedule().find("ids")}, "rows"));
}

ValueId write_positions(Writer& w) {
  if (w.b.schedule().find("positions") < 0) declare_integers(w, "positions");
  const Parameter table{.name = "model.embed_positions.weight",
                        .dims = {{"V", w.sizes.position_rows}, {"D", w.sizes.width}},
                        .over = w.tokens,
                        .group = "embedding"};
  const ValueId whole = w.b.schedule().find("positions");
  const ValueId held = w.sizes.family->cut_between() ? w.b.slice(whole, w.tp, "T") : whole;
  return w.b.add(Embed{}, {w.parameter(table), held}, "positions");
}

}  // namespace plait
