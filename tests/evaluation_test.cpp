// Validation loss is a property of model and text: the same at any micro-batch, layout, family and gate; and what
// evaluation takes of memory.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "corpus.h"
#include "plan/memory.h"
#include "train/loop.h"
#include "wire/ranks.h"

namespace plait {
namespace {

using Keys = std::vector<std::string>;

Keys joined(const std::vector<Keys>& all) {
  Keys keys;
  for (const Keys& some : all) keys.insert(keys.end(), some.begin(), some.end());
  return keys;
}

const Keys kModel = {"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=32",
                     "moe.every=2",          "moe.num_experts=4",         "moe.moe_intermediate_size=16",
                     "train.batch_size=8",   "train.seq_length=8",        "train.eval_batches=2",
                     "train.dtype=float64"};

// 13 windows of 8: no number of sequences at once divides them.
data::Corpus text() { return random_corpus(1100); }

double loss(const Config& config, const data::Corpus& corpus) {
  return wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kDouble});
    const std::optional<double> mine = trainer.evaluate();
    return *mine;
  });
}

double loss(const std::vector<Keys>& keys) { return loss(ready_config("", joined(keys)), text()); }

struct GateCase {
  std::string name;
  Keys keys;
};

const Keys kTight = {"moe.capacity=0.5", "moe.min_capacity=1"};
const std::vector<GateCase> kGates = {
    {"softmax", {"moe.aux_scope=local"}},
    {"softmax_over_capacity", joined({kTight, {"moe.normalize=after"}})},
    {"softmax_of_groups_over_capacity", joined({kTight, {"moe.group=4", "moe.drop=rts", "moe.jitter=0.1"}})},
    {"topk_first_over_capacity", joined({kTight, {"moe.order=topk_first", "moe.shared_experts=1"}})},
    {"switch_drawn",
     joined({kTight, {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.sample=gumbel", "moe.drop=position"}})},
    {"gshard_drawn", joined({kTight, {"moe.gate=gshard", "moe.sample=gumbel"}})},
    {"sigmoid", joined({kTight, {"moe.gate=sigmoid", "moe.aux_coef=0.1", "moe.normalize=after"}})},
    {"expert_choice", {"moe.gate=expert_choice", "moe.capacity=0.75", "moe.min_capacity=1"}},
    {"expert_choice_of_groups", {"moe.gate=expert_choice", "moe.capacity=1", "moe.min_capacity=1", "moe.group=4"}},
    {"base", {"moe.gate=base", "moe.num_experts_per_tok=1"}},
    {"base_over_capacity", joined({kTight, {"moe.gate=base", "moe.num_experts_per_tok=1"}})},
    {"hash", joined({kTight, {"moe.gate=hash"}})},
    {"noisy_topk", joined({kTight, {"moe.gate=noisy_topk", "moe.z_coef=0.1"}})},
};

std::string name_of(const testing::TestParamInfo<GateCase>& info) { return info.param.name; }

class ValidationLoss : public testing::TestWithParam<GateCase> {};

TEST_P(ValidationLoss, is_the_same_for_every_micro_batch_layout_and_family) {
  const double one = loss({kModel, GetParam().keys});
  EXPECT_NEAR(loss({kModel, GetParam().keys, {"train.micro_batch_size=1"}}), one, 1e-12);
  const Keys others = {"train.micro_batch_size=3", "train.batch_size=6", "train.eval_batches=3"};
  EXPECT_NEAR(loss({kModel, GetParam().keys, others}), one, 1e-12);
  const std::vector<Keys> layouts = {{"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=4"},
                                     {"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=1"},
                                     {"mesh.tp=2", "mesh.esp=1", "mesh.ep=2", "train.micro_batch_size=1"},
                                     {"mesh.esp=2", "mesh.ep=2", "train.micro_batch_size=2", "schedule.chunks=2"},
                                     {"mesh.ep=4", "mesh.dp=8", "train.micro_batch_size=1", "memory.zero=3"}};
  std::map<std::string, int> evaluated;
  for (const char* family : {"ted", "dtd", "s1", "s2", "parm", "sharded"})
    for (const Keys& layout : layouts) {
      const Keys keys = joined({kModel, GetParam().keys, layout, {fmt::format("schedule.moe={}", family)}});
      Config config;
      try {
        config = ready_config("", keys);
      } catch (const InputError&) {
        continue;  // no such run exists
      }
      EXPECT_NEAR(loss(config, text()), one, 1e-12) << family << ", " << fmt::format("{}", fmt::join(layout, " "));
      ++evaluated[family];
    }
  for (const char* family : {"s1", "s2", "sharded"}) EXPECT_GE(evaluated[family], 4) << family;
}

INSTANTIATE_TEST_SUITE_P(Gates, ValidationLoss, testing::ValuesIn(kGates), name_of);

TEST(ValidationLossOverCapacity, is_that_of_a_gate_that_drops_nothing) {
  for (const Keys& gate : {Keys{}, Keys{"moe.gate=gshard"}, Keys{"moe.gate=sigmoid"}, Keys{"moe.gate=hash"}})
    EXPECT_NEAR(loss({kModel, gate, kTight}), loss({kModel, gate}), 1e-12) << (gate.empty() ? "softmax" : gate[0]);
}

// Each token goes to the expert of its greatest logit, as with the Switch gate; the weights differ.
TEST(ValidationLossOfBase, hangs_on_no_group) {
  const Keys base = {"moe.gate=base", "moe.num_experts_per_tok=1"};
  EXPECT_EQ(loss({kModel, base, {"moe.group=1"}}), loss({kModel, base, {"moe.group=64"}}));
}

TEST(ValidationLoss, counts_batches_of_a_step_and_every_target_once) {
  const auto of_batches = [](const char* batches, const char* micro) {
    return loss(
        {kModel, {fmt::format("train.eval_batches={}", batches), fmt::format("train.micro_batch_size={}", micro)}});
  };
  EXPECT_NEAR(of_batches("1", "8"), of_batches("1", "1"), 1e-12);
  EXPECT_GT(std::abs(of_batches("1", "8") - of_batches("2", "8")), 1e-6) << "8 windows and 13";
  EXPECT_EQ(of_batches("2", "8"), of_batches("9", "8")) << "there are no more";
}

// With rows at their expected number.
TEST(EvaluationMemory, is_no_more_than_that_of_a_training_step) {
  const Keys size = {"train.batch_size=8",
                     "train.seq_length=64",
                     "model.hidden_size=16",
                     "model.num_hidden_layers=1",
                     "moe.num_experts=4",
                     "moe.moe_intermediate_size=128",
                     "mesh.tp=2",
                     "train.dtype=float64"};
  for (const char* family : {"ted", "dtd", "s1", "s2", "sharded"})
    for (const char* capacity : {"none", "1", "0.25"})
      for (const char* micro : {"8", "4", "1"}) {
        const Config config =
            ready_config("", joined({size,
                                     {fmt::format("schedule.moe={}", family), fmt::format("moe.capacity={}", capacity),
                                      fmt::format("train.micro_batch_size={}", micro)}}));
        const RunShape shape = run_shape(config);
        const Schedule evaluation = build_evaluation(shape.mesh, evaluated_at_once(shape)).schedule;
        const MemoryPlan plan = plan_memory(evaluation, check(evaluation), {.item = item_of(at::kDouble)});
        EXPECT_LE(plan.peak.total(), predict_memory(config).peak.total())
            << family << ", capacity " << capacity << ", " << micro << " at once";
      }
}

TEST(EvaluationMemory, is_taken_from_what_the_step_gave_back) {
  const Config config = ready_config("", joined({kModel, {"moe.gate=hash", "train.micro_batch_size=4"}}));
  const data::Corpus corpus = text();
  Trainer trainer(config, run_shape(config), corpus, {.dtype = at::kDouble});
  trainer.step(0, 1e-3);
  const int64_t before = trainer.executor().buffers().reserved();
  trainer.evaluate();
  EXPECT_LT(trainer.executor().buffers().reserved() - before, before / 10);
}

}  // namespace
}  // namespace plait
