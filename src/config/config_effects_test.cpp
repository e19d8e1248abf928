// Keys that change nothing in their configuration: what is told of them, and that nothing hears them.
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"
#include "config/config.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

// Of a config as it is read, and of one that is ready to run.
std::string refused(std::string_view toml, const Overrides& overrides = {}) {
  return refusal<InputError>([&] { parse_config(toml, "run.toml", overrides); });
}
std::string layout_fault(const Overrides& overrides) {
  return refusal<InputError>([&] { ready_config("", overrides); });
}

// What is told of keys without effect.
std::string idle(std::string_view toml, const Overrides& overrides = {}) {
  return idle_note(parse_config(toml, "run.toml", overrides));
}

TEST(Config, a_key_without_effect_is_told) {
  EXPECT_EQ(idle("[moe]\nevery = 0\nz_coef = 0.1"),
            "no effect here: moe.z_coef: no layer has experts (moe.every = 0, moe.num_experts = 8, "
            "model.num_hidden_layers = 4)");
  EXPECT_EQ(
      idle("", {"moe.drop=position", "optim.name=sgd", "optim.eps=1e-6", "moe.group=8"}),
      "no effect here: moe.drop, moe.group: nothing is dropped (moe.capacity = \"none\"); optim.eps: sgd keeps no "
      "moments (optim.name = \"sgd\")");
  for (const Overrides& useless :
       {Overrides{"moe.num_experts=0", "moe.gate=switch"},
        {"moe.every=0", "moe.num_experts=4"},
        {"moe.every=9", "mesh.dp=2", "mesh.ep=2"},
        {"moe.min_capacity=1"},
        {"moe.drop=position"},
        {"moe.group=8"},
        {"moe.gate=gshard", "moe.order=topk_first"},
        {"moe.gate=gshard", "moe.capacity=1", "moe.drop=position"},
        {"moe.gate=hash", "moe.z_coef=0.1"},
        {"moe.gate=sigmoid", "moe.aux_scope=local"},
        {"moe.gate=base", "moe.aux_coef=0.1"},
        {"moe.gate=softmax", "moe.bias_rate=0.1"},
        {"moe.gate=softmax", "moe.sample=gumbel"},
        {"model.intermediate_size=8", "moe.moe_intermediate_size=16"},
        {"optim.name=sgd", "optim.eps=1e-6"},
        {"optim.name=sgd", "optim.betas=[0.1, 0.2]"},
        {"mesh.node=2"},
        {"schedule.lanes=true"},
        {"mesh.ep=2", "schedule.order=overlap"},
        {"mesh.ep=2", "schedule.lanes=true", "schedule.bucket=1"},
        {"mesh.ep=2", "schedule.lanes=true", "schedule.order=overlap", "schedule.bucket=1", "train.micro_batch_size=2"},
        {"schedule.slice=tokens"},
        {"moe.every=0", "schedule.dispatch=node"},
        {"moe.capacity=1", "schedule.rows=padded"},
        {"train.eval_every=0", "train.eval_batches=2"}}) {
    EXPECT_TRUE(idle("", useless).starts_with("no effect here: ")) << useless[1 % useless.size()];
  }
}

TEST(Config, a_key_of_use_is_told_of_nowhere) {
  EXPECT_EQ(idle("", {"moe.capacity=1", "moe.drop=position", "moe.group=8", "moe.min_capacity=1"}), "");
  EXPECT_EQ(idle("", {"mesh.ep=2", "schedule.lanes=true", "schedule.order=overlap", "schedule.bucket=0.5",
                      "train.micro_batch_size=8"}),
            "");
  EXPECT_EQ(idle("", {"model.intermediate_size=8"}), "");  // the experts' width follows it
  EXPECT_EQ(idle("", {"moe.every=0", "mesh.ep=2"}), "") << "as many ranks as with experts";
  EXPECT_EQ(resolve(parse_config("", "", Overrides{"moe.every=0", "mesh.ep=2"})).mesh.dp, 2);
}

TEST(Config, a_key_that_says_what_happens_anyway_is_no_fault) {
  for (const Overrides& anyway :
       {Overrides{"moe.gate=switch", "moe.normalize=none"},
        {"moe.gate=gshard", "moe.capacity=1", "moe.drop=probs"},
        {"moe.drop=probs", "moe.group=rank"},
        {"mesh.node=1", "schedule.lanes=false", "schedule.order=written", "schedule.bucket=0", "memory.zero=0"},
        {"moe.gate=base", "moe.aux_coef=0"},
        {"moe.every=0", "moe.num_experts=0", "mesh.ep=1", "mesh.esp=1"},
        {"schedule.moe=ted", "schedule.trials=0"},
        {"moe.every=0", "schedule.fuse=no"},
        {"memory.grad_dtype=param"},
        {"memory.keep_moves=all"}})
    EXPECT_EQ(idle("", anyway), "") << anyway[0];
}

TEST(Config, an_override_that_takes_the_effect_of_keys_in_the_file_is_no_fault_of_theirs) {
  const char* file = "[moe]\nnum_experts = 4\ncapacity = 2\ndrop = \"position\"";
  EXPECT_EQ(idle(file, {"moe.every=0"}), "");
  EXPECT_EQ(idle(file, {"moe.capacity=none"}), "");
  EXPECT_EQ(idle(file, {"moe.capacity=none", "moe.drop=rts"}).substr(0, 25), "no effect here: moe.drop:");
  // What is idle in the file is heard where an override gives it an effect.
  EXPECT_EQ(parse_config("[moe]\ndrop = \"position\"", "x", Overrides{"moe.capacity=2"}).moe.drop, Drop::position);
}

TEST(Config, a_key_without_effect_is_as_if_it_were_left_out) {
  const Config c = parse_config("", "",
                                Overrides{"moe.drop=position", "schedule.moe=auto", "schedule.chunks=3",
                                          "moe.expert_groups=3", "moe.kept_groups=5"});
  EXPECT_EQ(c.moe.drop, Drop::probs);
  EXPECT_EQ(c, parse_config("", "", Overrides{"schedule.moe=auto"}));
  EXPECT_EQ(layout_fault({"moe.expert_groups=3", "moe.kept_groups=5"}), "accepted");
  EXPECT_EQ(refused("", {"moe.expert_groups=0"}),
            "override moe.expert_groups=0: moe.expert_groups = 0, expected an integer of 1 to 2147483648");
}

TEST(Config, keys_of_two_byte_runs_have_no_effect_on_others) {
  EXPECT_EQ(idle("[train]\ndtype = \"float16\"\nhysteresis = 1\n[memory]\ngrad_dtype = \"param\"\ntile = 7"), "");
  EXPECT_EQ(idle("[memory]\ngrad_dtype = \"param\""), "") << "gradients are of that one type anyway";
  EXPECT_NE(idle("[train]\ndtype = \"bfloat16\"\n[memory]\ntile = 7").find("no gradient of 2 bytes"),
            std::string::npos);
  EXPECT_NE(idle("[train]\ndtype = \"bfloat16\"\nhysteresis = 1").find("only float16 scales"), std::string::npos);
  EXPECT_NE(layout_fault({"train.dtype=float16", "train.initial_scale_power=61"}).find("at most 60"),
            std::string::npos);
}

TEST(Config, a_key_that_a_launcher_gives_an_effect_is_told_of_nowhere) {
  const Overrides lanes = {"schedule.lanes=true", "train.batch_size=8"};
  EXPECT_NE(idle("", lanes), "");
  EXPECT_EQ(idle_note(parse_config("", "", lanes, {.ranks = 8, .ranks_per_node = 4})), "");
}

}  // namespace
}  // namespace plait
