// Every gate at a layout that cuts tokens, heads and experts, in every family that allows it: one rank's numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "choices.h"
#include "corpus.h"
#include "train/loop.h"
#include "verify/verify.h"
#include "wire/ranks.h"

namespace plait {
namespace {

struct GateCase {
  std::string name;
  std::vector<std::string> keys;
  bool copies = true;  // copies of a token go the same way, so that the family parm allows it
};

std::string name_of(const testing::TestParamInfo<GateCase>& info) { return info.param.name; }

Config small(const GateCase& c, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=32",
                                  "moe.every=2",          "moe.num_experts=4",         "moe.moe_intermediate_size=16",
                                  "train.batch_size=8",   "train.seq_length=8"};
  all.insert(all.end(), c.keys.begin(), c.keys.end());
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all);
}

const std::vector<std::string> kTwoMicroBatches = {"mesh.tp=2", "mesh.ep=2", "train.micro_batch_size=2"};

class EveryGate : public testing::TestWithParam<GateCase> {};

TEST_P(EveryGate, computes_what_one_rank_computes) {
  const data::Corpus corpus = random_corpus();
  for (const char* family : {"ted", "dtd", "s1", "s2", "parm", "sharded"}) {
    if (std::string_view(family) == "parm" && !GetParam().copies) continue;
    std::vector<std::string> more = kTwoMicroBatches;
    more.push_back(fmt::format("schedule.moe={}", family));
    if (std::string_view(family) == "ted") EXPECT_EQ(near_choice(small(GetParam(), more), corpus), "");
    const VerifyReport report = verify(small(GetParam(), more), corpus);
    EXPECT_LT(report.largest(), 1e-9) << family;
    EXPECT_TRUE(report.replicas.empty()) << report.replicas.front();
  }
}

// Twice the same bits: whatever is drawn in training is not drawn here.
TEST_P(EveryGate, evaluates_without_chance) {
  const data::Corpus corpus = random_corpus();
  const Config config = small(GetParam(), {"train.eval_batches=2", "train.dtype=float64"});
  Trainer trainer(config, run_shape(config), corpus, {.dtype = at::kDouble});
  trainer.step(0, 1e-2);
  EXPECT_EQ(trainer.evaluate(), trainer.evaluate());
}

const std::vector<GateCase> kCases = {
    {"softmax_with_jitter", {"moe.jitter=0.1"}, false},
    {"topk_first", {"moe.order=topk_first"}},
    {"topk_first_over_capacity",
     {"moe.order=topk_first", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8"},
     false},
    {"softmax_rts", {"moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8", "moe.drop=rts"}, false},
    {"switch_rts_drawn",
     {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.sample=gumbel", "moe.capacity=0.5", "moe.min_capacity=1",
      "moe.group=8", "moe.drop=rts"},
     false},
    {"gshard", {"moe.gate=gshard"}},
    {"gshard_over_capacity", {"moe.gate=gshard", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8"}, false},
    {"gshard_drawn", {"moe.gate=gshard", "moe.sample=gumbel"}, false},
    {"sigmoid", {"moe.gate=sigmoid", "moe.bias_rate=0.05", "moe.expert_groups=2", "moe.routed_scaling=2.5"}},
    {"sigmoid_of_one_group_over_capacity",
     {"moe.gate=sigmoid", "moe.bias_rate=0.05", "moe.expert_groups=2", "moe.capacity=0.5", "moe.min_capacity=1",
      "moe.group=8", "moe.normalize=after"},
     false},
    {"expert_choice", {"moe.gate=expert_choice", "moe.capacity=1", "moe.min_capacity=1", "moe.group=8"}, false},
    {"base", {"moe.gate=base", "moe.num_experts_per_tok=1", "moe.group=8"}, false},
    {"hash", {"moe.gate=hash"}},
    {"noisy_topk", {"moe.gate=noisy_topk", "moe.aux_coef=0.5"}, false},
    {"noisy_topk_over_capacity",
     {"moe.gate=noisy_topk", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8", "moe.z_coef=0.1"},
     false},
    {"sigmoid_with_the_loss_of_each_sequence",
     {"moe.gate=sigmoid", "moe.bias_rate=0.05", "moe.aux_coef=0.5", "moe.z_coef=0.1"}},
    {"softmax_with_local_losses", {"moe.aux_scope=local", "moe.aux_coef=0.5", "moe.z_coef=0.1"}},
    {"switch_with_local_losses", {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.aux_scope=local"}},
    {"gshard_with_local_losses",
     {"moe.gate=gshard", "moe.aux_scope=local", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8"},
     false},
    {"hash_over_capacity", {"moe.gate=hash", "moe.capacity=0.5", "moe.min_capacity=1", "moe.group=8"}, false},
    {"shared_experts", {"moe.shared_experts=2"}},
};

INSTANTIATE_TEST_SUITE_P(Gates, EveryGate, testing::ValuesIn(kCases), name_of);

// tp cuts the only sequence of a data rank in four; esp joins those of two data ranks and cuts otherwise than tp.
TEST(LossesOfTokenGroups, are_one_ranks_where_ranks_cut_and_join_sequences) {
  const data::Corpus corpus = random_corpus();
  const std::vector<std::string> sequence = {"moe.gate=sigmoid", "moe.aux_coef=0.5"}, local = {"moe.aux_scope=local"};
  const auto expect_agreement = [&](const std::vector<std::string>& gate, std::vector<std::string> more) {
    EXPECT_EQ(near_choice(small({"", gate}, more), corpus), "");
    const VerifyReport report = verify(small({"", gate}, more), corpus);
    EXPECT_TRUE(report.agrees()) << gate[0] << ", " << more[0] << ": " << report.largest();
  };
  for (const auto& gate : {sequence, local}) {
    for (const char* family : {"sharded", "s1", "s2"})
      expect_agreement(gate, {fmt::format("schedule.moe={}", family), "mesh.tp=4", "mesh.esp=2", "mesh.ep=4",
                              "train.micro_batch_size=1"});
    for (const char* tp : {"1", "2", "4"})
      expect_agreement(gate, {"schedule.moe=parm", fmt::format("mesh.tp={}", tp), "mesh.esp=2", "mesh.ep=2",
                              "mesh.dp=4", "train.micro_batch_size=1"});
  }
}

// By hand from the published formula, for the model's own scores: all tokens alike give 1.
TEST(LossesOfTokenGroups, depend_on_the_scope_and_are_one_at_balance) {
  const data::Corpus corpus = random_corpus();
  const auto aux = [&](std::vector<std::string> keys) {
    const Config config = small({"", std::move(keys)}, {"train.dtype=float64", "mesh.dp=2"});
    double first = 0;
    wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
      Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kDouble});
      const double mine = trainer.step(0, 1e-3).aux;
      if (rank == 0) first = mine;
    });
    return first;
  };
  const double global = aux({"moe.aux_coef=1"}), local = aux({"moe.aux_coef=1", "moe.aux_scope=local"}),
               sequence = aux({"moe.gate=sigmoid", "moe.aux_coef=1"});
  EXPECT_NE(global, local);
  for (double loss : {global, local, sequence}) {
    EXPECT_GT(loss, 0.9);  // scores are nearly equal at the start
    EXPECT_LT(loss, 1.2);
  }
}

TEST(SigmoidGate, moves_its_bias_once_a_step_and_not_in_evaluation) {
  const data::Corpus corpus = random_corpus();
  const std::string bias = bias_name(1);
  for (const char* micro : {"8", "2"}) {
    const Config config =
        small({"", {"moe.gate=sigmoid", "moe.bias_rate=0.25"}}, {fmt::format("train.micro_batch_size={}", micro)});
    Trainer trainer(config, run_shape(config), corpus, {});
    const StepResult r = trainer.step(0, 1e-3);
    const at::Tensor moved = trainer.whole(bias).clone();
    for (int64_t e = 0; e < 4; ++e) {
      const double load = r.layers[0].chosen[static_cast<size_t>(e)], mean = 8 * 8 * 2 / 4;
      EXPECT_EQ(moved[e].item<double>(), load < mean ? 0.25 : load > mean ? -0.25 : 0) << load;
    }
    EXPECT_GT(moved.abs().max().item<double>(), 0);
    trainer.evaluate();
    EXPECT_TRUE(trainer.whole(bias).equal(moved));
    CheckpointContent saved = trainer.checkpoint({});
    EXPECT_TRUE(std::ranges::any_of(saved.model, [&](const TensorInfo& t) { return t.name == bias; }))
        << "the model's file alone routes";
  }
}

TEST(Draws, differ_between_steps_and_seeds_and_are_the_same_again) {
  const data::Corpus corpus = random_corpus();
  const GateCase drawn{"", {"moe.gate=gshard", "moe.sample=gumbel", "moe.num_experts=8"}};
  const auto second_step = [&](const char* seed) {
    const Config config = small(drawn, {fmt::format("train.seed={}", seed)});
    Trainer trainer(config, run_shape(config), corpus, {});
    const auto first = trainer.step(0, 1e-12).layers[0].chosen;
    const auto second = trainer.step(1, 1e-12).layers[0].chosen;
    EXPECT_NE(first, second);
    return second;
  };
  EXPECT_EQ(second_step("1"), second_step("1"));
  EXPECT_NE(second_step("1"), second_step("2"));
}

}  // namespace
}  // namespace plait
