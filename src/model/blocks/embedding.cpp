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

}  // namespace plait
