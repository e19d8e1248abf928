#include "data/batch.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "base/random.h"

namespace plait::data {
namespace {

Corpus corpus_of(int64_t training, int64_t validation) {
  Corpus corpus{.tokens = std::vector<uint8_t>(training + validation), .num_training = training};
  for (size_t i = 0; i < corpus.tokens.size(); ++i) corpus.tokens[i] = hash64(1, i) % 256;
  return corpus;
}

std::vector<int64_t> values(const at::Tensor& tensor) {
  return {tensor.data_ptr<int64_t>(), tensor.data_ptr<int64_t>() + tensor.numel()};
}

// Where in the text the window of these tokens lies; fails the test when it is nowhere.
int64_t place_of(std::span<const uint8_t> text, const std::vector<int64_t>& window) {
  const auto at = std::search(text.begin(), text.end(), window.begin(), window.end());
  EXPECT_NE(at, text.end());
  return at - text.begin();
}

bool equal(const Batch& a, const Batch& b) {
  return at::equal(a.ids_T, b.ids_T) && at::equal(a.targets_T, b.targets_T) && at::equal(a.mask_T, b.mask_T) &&
         a.num_targets == b.num_targets;
}

Batch joined(const std::vector<Batch>& parts) {
  std::vector<at::Tensor> ids, targets, mask;
  for (const auto& part : parts) {
    ids.push_back(part.ids_T);
    targets.push_back(part.targets_T);
    mask.push_back(part.mask_T);
  }
  return {at::cat(ids), at::cat(targets), at::cat(mask), parts[0].num_targets};
}

TEST(Batch, holds_windows_of_the_training_part_and_the_token_after_each) {
  const auto corpus = corpus_of(500, 100);
  const BatchPlan plan{.seed = 3, .batch_size = 6, .seq_length = 16};
  const auto batch = make_batch(corpus, plan, {.step = 7});
  ASSERT_EQ(batch.ids_T.numel(), 96);
  EXPECT_EQ(batch.num_targets, 96);
  EXPECT_EQ(batch.mask_T.sum().item<int64_t>(), 96);
  for (int64_t i = 0; i < 96; ++i) EXPECT_EQ(batch.positions_T[i].item<int64_t>(), i % 16);
  for (int64_t b = 0; b < 6; ++b) {
    const auto ids = values(batch.ids_T.narrow(0, b * 16, 16)), targets = values(batch.targets_T.narrow(0, b * 16, 16));
    const auto start = place_of(corpus.training(), ids);
    EXPECT_EQ(place_of(corpus.training(), targets), start + 1);
  }
}

TEST(Batch, is_the_union_of_what_the_data_ranks_get) {
  const auto corpus = corpus_of(1000, 0);
  for (const int64_t num_micro : {1, 2, 3}) {
    const BatchPlan one{.seed = 5, .batch_size = 48, .seq_length = 8, .num_micro = num_micro};
    for (const int64_t dp : {2, 4, 8}) {
      auto plan = one;
      plan.dp_size = dp;
      for (int64_t micro = 0; micro < num_micro; ++micro) {
        std::vector<Batch> parts;
        for (int64_t d = 0; d < dp; ++d) {
          parts.push_back(make_batch(corpus, plan, {.step = 2, .micro = micro, .dp_rank = d}));
        }
        EXPECT_TRUE(equal(joined(parts), make_batch(corpus, one, {.step = 2, .micro = micro})));
      }
    }
  }
}

TEST(Batch, of_all_micro_batches_is_the_merged_batch) {
  const auto corpus = corpus_of(1000, 0);
  const BatchPlan one{.batch_size = 12, .seq_length = 8};
  auto micro = one;
  micro.num_micro = 3;
  const auto part = [&](int64_t m) { return make_batch(corpus, micro, {.micro = m}); };
  EXPECT_TRUE(equal(joined({part(0), part(1), part(2)}), make_batch(corpus, one, {})));
}

TEST(Batch, depends_on_nothing_but_seed_step_and_place) {
  const auto corpus = corpus_of(5000, 0);
  const BatchPlan plan{.seed = 5, .batch_size = 4, .seq_length = 32};
  const auto first = make_batch(corpus, plan, {.step = 9});
  make_batch(corpus, plan, {.step = 3});
  EXPECT_TRUE(equal(first, make_batch(corpus, plan, {.step = 9})));
  EXPECT_FALSE(equal(first, make_batch(corpus, plan, {.step = 10})));
  EXPECT_FALSE(equal(first, make_batch(corpus, {.seed = 6, .batch_size = 4, .seq_length = 32}, {.step = 9})));
}

TEST(Batch, reaches_the_first_and_the_last_window_of_the_text) {
  const auto corpus = corpus_of(12, 0);  // windows of 10 + 1 tokens start at 0 or 1
  std::set<int64_t> starts;
  for (int64_t step = 0; step < 20; ++step) {
    const auto batch = make_batch(corpus, {.batch_size = 1, .seq_length = 10}, {.step = step});
    starts.insert(place_of(corpus.training(), values(batch.ids_T)));
  }
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1}));
}

TEST(Batch, refuses_a_size_that_does_not_divide) {
  const auto corpus = corpus_of(100, 0);
  EXPECT_THROW(make_batch(corpus, {.batch_size = 6, .seq_length = 8, .num_micro = 2, .dp_size = 2}, {}), ContractError);
}

TEST(EvalBatch, covers_the_validation_part_with_even_windows_that_do_not_overlap) {
  const auto corpus = corpus_of(50, 1000);
  const EvalPlan plan{.batch_size = 4, .seq_length = 16, .max_sequences = 12};
  ASSERT_EQ(num_eval_batches(corpus, plan), 3);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < 3; ++i) {
    const auto batch = eval_batch(corpus, plan, i, 0);
    EXPECT_EQ(batch.num_targets, 64);
    for (int64_t b = 0; b < 4; ++b) {
      starts.push_back(place_of(corpus.validation(), values(batch.ids_T.narrow(0, b * 16, 16))));
      EXPECT_EQ(place_of(corpus.validation(), values(batch.targets_T.narrow(0, b * 16, 16))), starts.back() + 1);
    }
  }
  EXPECT_EQ(starts.front(), 0);
  EXPECT_EQ(starts.back(), 1000 - 17);
  for (size_t i = 1; i < starts.size(); ++i) EXPECT_NEAR(starts[i] - starts[i - 1], 983.0 / 11, 1);
}

TEST(EvalBatch, pads_and_masks_the_last_batch) {
  const auto corpus = corpus_of(50, 101);  // six windows of 16, and not a seventh
  const EvalPlan plan{.batch_size = 4, .seq_length = 16, .max_sequences = 20, .dp_size = 4};
  ASSERT_EQ(num_eval_batches(corpus, plan), 2);
  for (int64_t d = 0; d < 4; ++d) {
    const auto batch = eval_batch(corpus, plan, 1, d);
    EXPECT_EQ(batch.num_targets, 32) << "of all ranks";
    EXPECT_EQ(batch.mask_T.sum().item<int64_t>(), d < 2 ? 16 : 0);
    const int64_t tokens = batch.ids_T.sum().item<int64_t>() + batch.targets_T.sum().item<int64_t>();
    EXPECT_EQ(tokens == 0, d >= 2);
  }
}

TEST(EvalBatch, is_the_union_of_what_the_data_ranks_get) {
  const auto corpus = corpus_of(50, 300);
  const EvalPlan one{.batch_size = 8, .seq_length = 16, .max_sequences = 72};
  for (const int64_t dp : {2, 4, 8}) {
    auto plan = one;
    plan.dp_size = dp;
    ASSERT_EQ(num_eval_batches(corpus, plan), num_eval_batches(corpus, one));
    for (int64_t i = 0; i < num_eval_batches(corpus, one); ++i) {
      std::vector<Batch> parts;
      for (int64_t d = 0; d < dp; ++d) parts.push_back(eval_batch(corpus, plan, i, d));
      EXPECT_TRUE(equal(joined(parts), eval_batch(corpus, one, i, 0)));
    }
  }
}

TEST(EvalBatch, holds_the_same_windows_however_many_come_at_once) {
  const auto corpus = corpus_of(50, 300);  // 18 windows of 16
  const auto all = [&](const EvalPlan& plan) {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < num_eval_batches(corpus, plan); ++i)
      for (int64_t d = 0; d < plan.dp_size; ++d) batches.push_back(eval_batch(corpus, plan, i, d));
    return joined(batches).ids_T;
  };
  for (const int64_t most : {1, 7, 18, 100}) {
    const int64_t windows = std::min<int64_t>(most, 18) * 16;
    const at::Tensor one = all({.batch_size = 1, .seq_length = 16, .max_sequences = most});
    ASSERT_EQ(one.numel(), windows);
    for (const int64_t at_once : {2, 4, 8, 32})
      EXPECT_TRUE(all({.batch_size = at_once, .seq_length = 16, .max_sequences = most, .dp_size = 2})
                      .narrow(0, 0, windows)
                      .equal(one))
          << most << ", " << at_once;
  }
}

TEST(EvalBatch, has_none_without_a_validation_part) {
  EXPECT_EQ(num_eval_batches(corpus_of(50, 0), {.batch_size = 8, .seq_length = 16, .max_sequences = 72}), 0);
}

}  // namespace
}  // namespace plait::data
