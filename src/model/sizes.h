// The numbers a model schedule is written from: shapes, the MoE family, and what a gate decides together. Taken once
// from a resolved Config; the one-rank reference of a layout takes the same sizes on a mesh of one.
#pragma once
#include <algorithm>
#include <cstdint>

#include "config/architecture.h"
#include "config/config.h"
#include "gates/softmax/record.h"
#include "schedule/choices.h"
#include "schedule/type.h"

namespace plait {

// What ranks that would hold the same parameters and moments share out among them (ZeRO): none: nothing. states:
// parameters are stored in shares, and gathered once a step. parameters: gathered in each layer, forward and backward.
enum class Zero { none, states, parameters };

struct ModelSizes {
  const Architecture* architecture = &architectures::mixtral;
  Precision precision = Precision::one;
  int64_t sequences = 1, positions = 1;  // of one micro-batch in the whole world: T = sequences * positions
  int64_t vocab = 256, width = 64, layers = 1;
  int64_t heads = 1, kv_heads = 1;
  int64_t ffn = 128;  // dense feed-forward hidden
  Act act = Act::silu;
  bool glu = true, tied = true;
  double norm_eps = 1e-5, rope_theta = 10000;

  const FamilySpec* family = &families::sharded;
  int64_t moe_every = 0;  // layer l has experts when (l + 1) % moe_every == 0; 0 = dense
  int64_t experts = 1, top_k = 1, expert_ffn = 128;
  const GateSpec* gate = &softmax_gate;
  GateOrder order = GateOrder::softmax_first;  // of gates that know both
  Normalize normalize = Normalize::before;
  Drop drop = Drop::none;
  int64_t group = 0;     // tokens of a gate group; 0 = dropless
  int64_t capacity = 0;  // routes an expert has room for in each group; 0 = dropless
  bool counted = false;  // rows lie in no slots, though there is a capacity: they travel with their counts
  // What evaluation takes for these two, see for_evaluation.
  int64_t eval_group = 0, eval_capacity = 0;
  GateRule rule = {};    // `stream` is set by layer
  double jitter = 0;     // of the gate's input, in training
  double bias_rate = 0;  // of gates with a bias: how far it moves in a step
  int64_t shared_experts = 0;
  double aux_coef = 0, z_coef = 0;
  int64_t aux_group = 0;  // tokens of one auxiliary loss, of which the mean counts; 0: the whole micro-batch
  bool noise = false;     // of the logits, in training
  Dispatch dispatch = Dispatch::direct;
  bool pad_rows = false;        // dropless, but as many rows in every cell as in the busiest (DeepSpeed's no-drop form)
  bool slice_rows = true;       // dropless: what a family cuts behind the gate is rows, not tokens and their routes
  bool fuse = false;            // the exchange over ep and the gather over esp in one message
  int64_t chunks = 1;           // of the rows: exchange | experts | exchange one after another
  int64_t chunks_backward = 0;  // messages of the backward pass; 0: as chunks. One of the two divides the other.

  Zero zero = Zero::none;
  Recompute recompute = Recompute::none;  // in every layer
  KeepMoves keep_moves = KeepMoves::all;

  int64_t tokens() const { return sequences * positions; }
  int64_t slots() const { return counted ? 0 : capacity; }  // of an expert in a padded buffer; 0: rows are ragged
  int64_t backward_chunks() const { return chunks_backward ? chunks_backward : chunks; }
  int64_t parts() const { return std::max(chunks, backward_chunks()); }  // of the rows, that experts compute apart
  int64_t head_size() const { return width / heads; }
  bool draws() const { return drop == Drop::rts || rule.sample != Sample::none || jitter > 0 || noise; }
  const RouteSpec& route() const { return order == GateOrder::topk_first ? *gate->topk_first : *gate->route; }
  int64_t routes() const { return route().chooser == Chooser::expert ? experts : top_k; }  // places of a token, K
  int64_t aux_choices() const { return gate->counted ? gate->counted : top_k; }  // that the auxiliary loss counts
  bool counts_apart() const { return aux_coef != 0 && (aux_choices() < top_k || aux_group > 0); }
  bool balances() const { return aux_coef != 0 && gate->loss != AuxLoss::variation; }  // by psum and the routes
  bool has_experts(int64_t layer) const { return moe_every > 0 && (layer + 1) % moe_every == 0; }
};

// REQUIRES a resolved, validated config. C is rounded up to a multiple of tp where the
// family slices the slots.
ModelSizes model_sizes(const Config& config);

// How a model is judged and goes on with a text: nothing is drawn and nothing dropped, so that what a token gets
// depends on neither batch nor layout, and there are no losses of gates. Where a gate group shares out its tokens, each
// token alone goes to its best expert; where experts choose, they choose among those of one sequence (or of moe.group
// where that is a number), as many as moe.capacity gives them there.
ModelSizes for_evaluation(const ModelSizes& sizes);

// The same model on a batch of `sequences` in the world. REQUIRES that gate groups divide what a rank then gates.
ModelSizes with_batch(const ModelSizes& sizes, int64_t sequences, int64_t positions);

}  // namespace plait
