// A model as a forward schedule: what its architecture writes, and the loss. Dims: T tokens (B sequences x S
// positions), D width, H heads, J key/value heads, A head size, F hidden, U gate|up, E experts, K routes, V vocabulary.
#pragma once
#include <vector>

#include "model/parameters.h"
#include "model/sizes.h"
#include "schedule/schedule.h"

namespace plait {

// Data leaves, per micro-batch: ids[T], targets[T], weight[T] = 1 / (targets of the whole batch), 0 on padding; with
// experts also mask[T] (1 = real token), and where an auxiliary loss is on inv_tokens[] = 1 / real tokens of the
// micro-batch in the world and share[] = its share of the batch's tokens, and where a gate draws step_key[], an integer
// of its own for each micro-batch of a run. State leaves: the bias of each sigmoid gate. T is sharded over dp, I over
// tp.
struct Model {
  // Values from `first` on, to the next scope's, are those of a layer, or of what stands beside the layers (-1).
  struct Scope {
    int64_t layer = -1;
    ValueId first = 0;
  };
  Schedule schedule;
  std::vector<Parameter> parameters;
  int num_prologue = 0;               // the first steps enter the parameters: once a step, not once a micro-batch
  ValueId loss = -1;                  // nll + aux, held I
  ValueId nll = -1, aux = -1;         // aux -1 where no coefficient is set
  std::vector<int64_t> moe_layers;    // that have experts
  std::vector<ValueId> chosen, kept;  // by MoE layer [E]: routes before and after dropping, in the world
  std::vector<ValueId> biases;        // by MoE layer [E], a state; -1 where its gate has none
  std::vector<Scope> scopes;          // in the order of writing
  ValueId logits = -1;                // [T, V], only of build_logits
};

// The state leaf of a sigmoid gate: its bias, [E].
std::string bias_name(int64_t layer);

// Outputs nll, aux, chosen and kept.
Model build_model(const Mesh& mesh, const ModelSizes& sizes);

// Without loss, as for_evaluation says: outputs the logits [T, V]; needs ids and, with experts, mask. One rank.
Model build_logits(const ModelSizes& sizes);

}  // namespace plait
