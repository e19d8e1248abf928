#include "data/batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/errors.h"
#include "base/random.h"

namespace plait::data {
namespace {

Batch padding(int64_t sequences, int64_t seq_length) {
  const auto zeros = [&] { return at::zeros({sequences * seq_length}, at::kLong); };
  return {.ids_T = zeros(),
          .targets_T = zeros(),
          .mask_T = zeros(),
          .num_targets = 0,
          .positions_T = at::arange(sequences * seq_length, at::kLong).remainder(seq_length)};
}

// Fills sequence `b` of the batch from the window that starts at `tokens[0]` and holds seq_length + 1 tokens.
void fill(const Batch& batch, int64_t b, std::span<const uint8_t> tokens) {
  const auto seq_length = static_cast<int64_t>(tokens.size()) - 1;
  const auto at_b = [&](const at::Tensor& values) { return values.data_ptr<int64_t>() + b * seq_length; };
  std::copy(tokens.begin(), tokens.end() - 1, at_b(batch.ids_T));
  std::copy(tokens.begin() + 1, tokens.end(), at_b(batch.targets_T));
  std::fill_n(at_b(batch.mask_T), seq_length, 1);
}

int64_t num_eval_windows(const Corpus& corpus, const EvalPlan& plan) {
  const auto held_out = static_cast<int64_t>(corpus.validation().size());
  return std::clamp<int64_t>((held_out - 1) / plan.seq_length, 0, plan.max_sequences);
}

}  // namespace

int64_t sequence_start(const Corpus& corpus, const BatchPlan& plan, int64_t step, int64_t sequence) {
  const uint64_t key = hash64(random_key(plan.seed, "batch"), static_cast<uint64_t>(step));
  return static_cast<int64_t>(uniform_below(key, static_cast<uint64_t>(sequence),
                                            corpus.training().size() - static_cast<size_t>(plan.seq_length)));
}

Batch make_batch(const Corpus& corpus, const BatchPlan& plan, const BatchPlace& place) {
  const int64_t shares = plan.num_micro * plan.dp_size;
  expects(plan.batch_size % shares == 0, "a batch divides into micro-batches and data ranks");
  expects(place.micro < plan.num_micro && place.dp_rank < plan.dp_size, "a batch has this micro-batch and rank");
  const auto text = corpus.training();
  expects(static_cast<int64_t>(text.size()) > plan.seq_length, "the training part holds a sequence");
  const int64_t sequences = plan.batch_size / shares;
  const int64_t first = (place.micro * plan.dp_size + place.dp_rank) * sequences;
  auto batch = padding(sequences, plan.seq_length);
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t start = sequence_start(corpus, plan, place.step, first + b);
    fill(batch, b, text.subspan(start, plan.seq_length + 1));
  }
  batch.num_targets = plan.batch_size * plan.seq_length;
  return batch;
}

int64_t num_eval_batches(const Corpus& corpus, const EvalPlan& plan) {
  return (num_eval_windows(corpus, plan) + plan.batch_size - 1) / plan.batch_size;
}

Batch eval_batch(const Corpus& corpus, const EvalPlan& plan, int64_t index, int64_t dp_rank) {
  expects(plan.batch_size % plan.dp_size == 0, "a batch divides into data ranks");
  expects(index < num_eval_batches(corpus, plan) && dp_rank < plan.dp_size, "evaluation has this batch and rank");
  const auto text = corpus.validation();
  const int64_t windows = num_eval_windows(corpus, plan);
  const int64_t last_start = static_cast<int64_t>(text.size()) - 1 - plan.seq_length;
  const int64_t sequences = plan.batch_size / plan.dp_size;
  const int64_t first = index * plan.batch_size + dp_rank * sequences;
  auto batch = padding(sequences, plan.seq_length);
  for (int64_t b = 0; b < std::min(sequences, windows - first); ++b) {
    const int64_t start = windows == 1 ? 0 : (first + b) * last_start / (windows - 1);
    fill(batch, b, text.subspan(start, plan.seq_length + 1));
  }
  batch.num_targets = std::min(plan.batch_size, windows - index * plan.batch_size) * plan.seq_length;
  return batch;
}

}  // namespace plait::data
