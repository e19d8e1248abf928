// Batches as pure functions of the seed, the step and the place in the run: no generator, no position to save. Any
// layout cuts the same global batch, so the union over the data ranks is what one rank alone would get.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "data/corpus.h"

namespace plait::data {

// Sequences lie one after the other. A padded sequence has ids and targets 0 and mask 0.
struct Batch {
  at::Tensor ids_T;             // int64
  at::Tensor targets_T;         // int64, the token after each
  at::Tensor mask_T;            // int64, 1 for a real target
  int64_t num_targets;          // real targets of the whole batch: all micro-batches, all data ranks
  at::Tensor positions_T = {};  // int64, of each token in its sequence
};

struct BatchPlan {
  uint64_t seed = 1;
  int64_t batch_size = 1;  // sequences of a step, over all micro-batches and data ranks
  int64_t seq_length = 1;
  int64_t num_micro = 1;
  int64_t dp_size = 1;  // REQUIRES: batch_size % (num_micro * dp_size) == 0
};

struct BatchPlace {
  int64_t step = 0;
  int64_t micro = 0;
  int64_t dp_rank = 0;
};

// Where in the training part sequence `sequence` of a step begins, in tokens: drawn from (seed, step, sequence).
int64_t sequence_start(const Corpus& corpus, const BatchPlan& plan, int64_t step, int64_t sequence);

// Sequence i of a step starts at a place of the training part drawn from (seed, step, i). With b = batch_size /
// (num_micro * dp_size), micro-batch m on data rank d holds the sequences from (m * dp_size + d) * b.
Batch make_batch(const Corpus& corpus, const BatchPlan& plan, const BatchPlace& place);

struct EvalPlan {
  int64_t batch_size = 1;  // sequences that are evaluated at once, over all data ranks
  int64_t seq_length = 1;
  int64_t max_sequences = 1;  // of the whole evaluation
  int64_t dp_size = 1;        // REQUIRES: batch_size % dp_size == 0
};

// In how many batches evaluation comes: max_sequences, or fewer when the validation part has fewer whole ones.
int64_t num_eval_batches(const Corpus& corpus, const EvalPlan& plan);

// Batch `index` of evaluation for a data rank: fixed windows spread evenly over the validation part, none overlapping,
// the same at every layout and for every batch_size. The last batch may be padded.
Batch eval_batch(const Corpus& corpus, const EvalPlan& plan, int64_t index, int64_t dp_rank);

}  // namespace plait::data
