#include "config/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"
#include "config/catalogue.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

std::string refusal(const auto& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string refused(std::string_view toml, const Overrides& overrides = {}) {
  return refusal([&] { parse_config(toml, "run.toml", overrides); });
}

// The message of validate for the defaults with some keys changed; empty if the layout is legal.
std::string layout_fault(const Overrides& overrides) {
  return refusal([&] { ready_config("", overrides); });
}

TEST(Config, reads_sections_and_lets_overrides_win) {
  const Config c = parse_config(R"(
    [model]
    hidden_size = 64
    glu = false
    [moe]
    capacity = 2
    group = 32
    [optim]
    lr = 3e-4
    betas = [0.8, 0.9]
    [data]
    path = ["a.txt", "b.txt"]
  )",
                                "run.toml", Overrides{"model.hidden_size=96", "schedule.moe=ted", "log.dir=runs/x y"});
  EXPECT_EQ(c.model.hidden_size, 96);
  EXPECT_FALSE(c.model.glu);
  EXPECT_EQ(c.moe.capacity, 2.0);
  EXPECT_EQ(c.moe.group, 32);
  EXPECT_EQ(c.optim.lr, 3e-4);
  EXPECT_EQ(c.optim.betas, (std::array<double, 2>{0.8, 0.9}));
  EXPECT_EQ(c.data.path, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(c.schedule.moe, &families::ted);
  EXPECT_EQ(c.log.dir, "runs/x y");
  EXPECT_EQ(c.train.steps, Config().train.steps);
}

TEST(Config, reads_every_kind_of_override) {
  const Config c = parse_config("", "",
                                Overrides{"moe.capacity=1.25", "moe.group=rank", "optim.betas=[0.5, 0.75]",
                                          "data.path=[\"a\", \"b\"]", "model.glu=false", "train.dtype=\"float64\""});
  EXPECT_EQ(c.moe.capacity, 1.25);
  EXPECT_EQ(c.moe.group, 0);
  EXPECT_EQ(c.optim.betas[1], 0.75);
  EXPECT_EQ(c.data.path.size(), 2u);
  EXPECT_FALSE(c.model.glu);
  EXPECT_EQ(c.train.dtype, RunType::float64);
  EXPECT_FALSE(parse_config("moe.capacity = 2", "x", Overrides{"moe.capacity=none"}).moe.capacity.has_value());
}

TEST(Config, an_unknown_key_names_the_nearest_known_one) {
  EXPECT_EQ(refused("\n[moe]\nnum_expert = 4"),
            "run.toml:3: unknown key moe.num_expert; the nearest known key is moe.num_experts");
  EXPECT_EQ(refused("[modle]\nhidden_size = 4"),
            "run.toml:1: unknown key modle.hidden_size; the nearest known key is model.hidden_size");
  EXPECT_EQ(refused("", {"optim.num_layers=3"}),
            "override optim.num_layers=3: unknown key optim.num_layers; `plait config` lists all keys");
  EXPECT_EQ(refused("", {"lr=3"}), "override lr=3: unknown key lr; the nearest known key is optim.lr");
  EXPECT_EQ(refused("", {"model.lr=3"}),
            "override model.lr=3: unknown key model.lr; the nearest known key is optim.lr");
  EXPECT_EQ(refused("lr = 3"), "run.toml:1: unknown key lr; the nearest known key is optim.lr");
  EXPECT_EQ(refused("[extra]"), "run.toml:1: unknown key extra; `plait config` lists all keys");
  EXPECT_EQ(refused("[model.rope]\ntheta = 3").substr(0, 35), "run.toml:1: unknown key model.rope;");
}

TEST(Config, a_value_of_the_wrong_kind_says_what_was_expected) {
  EXPECT_EQ(refused("[train]\nsteps = \"many\""),
            "run.toml:2: train.steps = 'many', expected an integer of 1 to 2147483648");
  EXPECT_EQ(refused("", {"train.steps=1.5"}),
            "override train.steps=1.5: train.steps = 1.5, expected an integer of 1 to 2147483648");
  EXPECT_EQ(refused("", {"train.steps=0"}),
            "override train.steps=0: train.steps = 0, expected an integer of 1 to 2147483648");
  EXPECT_EQ(refused("", {"moe.gate=topk"}),
            "override moe.gate=topk: moe.gate = 'topk', expected one of \"softmax\", \"switch\", \"gshard\", "
            "\"sigmoid\", \"expert_choice\", \"base\", \"hash\", \"noisy_topk\"");
  EXPECT_EQ(refused("", {"moe.capacity=-1"}),
            "override moe.capacity=-1: moe.capacity = -1, expected a finite number above 0 or \"none\"");
  EXPECT_EQ(refused("", {"moe.group=world"}),
            "override moe.group=world: moe.group = 'world', expected an integer of 0 to 2147483648 or \"rank\"");
  EXPECT_EQ(refused("", {"model.glu=1"}), "override model.glu=1: model.glu = 1, expected true or false");
  EXPECT_NE(refused("", {"optim.betas=[0.9, 1.0]"}).find("expected two numbers of at least 0 and below 1"),
            std::string::npos);
  EXPECT_NE(refused("", {"data.path=[]"}), "");
  EXPECT_NE(refused("", {"optim.lr=nan"}), "");
  EXPECT_EQ(refused("", {"train.steps"}), "override train.steps: expected section.key=value");
}

TEST(Config, broken_toml_names_file_and_line) {
  EXPECT_EQ(refused("[model]\nglu = = 1").substr(0, 11), "run.toml:2:");
  EXPECT_EQ(refused("[model]\nglu = true\nglu = true").substr(0, 11), "run.toml:3:");
}

TEST(Config, what_is_no_config_file_is_told_as_what_it_is) {
  const ScratchFolder folder;
  spill(folder / "empty.toml", "");
  spill(folder / "words.toml", "# no keys\n");
  EXPECT_EQ(refusal([] { load_config("no/such.toml"); }),
            "no/such.toml: cannot read this config file: No such file or directory");
  EXPECT_EQ(refusal([] { load_config("."); }), ".: this is a folder, expected a TOML file");
  EXPECT_EQ(refusal([] { load_config("/dev/null"); }),
            "/dev/null: this device is empty, expected a TOML file; `plait config` lists all keys");
  const std::string empty = folder / "empty.toml";
  EXPECT_EQ(refusal([&] { load_config(empty); }),
            empty + ": this config file is empty, expected a TOML file; `plait config` lists all keys");
  EXPECT_EQ(load_config(folder / "words.toml"), Config());
}

TEST(Config, a_file_may_be_a_pipe) {
  const ScratchFolder folder;
  const std::string pipe = folder / "pipe.toml";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "[train]\nsteps = 7\n"; });
  EXPECT_EQ(load_config(pipe).train.steps, 7);
  writer.join();
}

TEST(Config, numbers_have_two_bounds) {
  EXPECT_EQ(refused("", {"train.batch_size=2147483649"}),
            "override train.batch_size=2147483649: train.batch_size = 2147483649, expected an integer of 1 to "
            "2147483648");
  EXPECT_EQ(refused("", {"train.seed=-1"}),
            "override train.seed=-1: train.seed = -1, expected an integer of 0 to 9223372036854775807");
  EXPECT_EQ(
      refused("", {"train.seed=99999999999999999999"}),
      "override train.seed=99999999999999999999: train.seed = '99999999999999999999', expected an integer of 0 to "
      "9223372036854775807");
  EXPECT_EQ(refused("", {"optim.lr=inf"}), "override optim.lr=inf: optim.lr = inf, expected a finite number above 0");
  for (const char* key : {"mesh.tp", "mesh.ep", "mesh.esp", "mesh.dp", "mesh.node", "mesh.threads"}) {
    const std::string over = fmt::format("{}=2147483648", key);
    EXPECT_TRUE(refused("", {over}).ends_with(" to 1048576")) << refused("", {over});
  }
}

TEST(Config, a_tilde_is_the_home_folder_in_every_key_that_is_a_path) {
  const std::string before = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", "/home/ada", 1);
  const Config c = parse_config("[data]\npath = [\"~/a.txt\", \"b~\"]\n[log]\ndir = \"~\"", "run.toml",
                                Overrides{"schedule.machine=~/m.toml", "train.init=~/runs/x"});
  EXPECT_EQ(c.data.path, (std::vector<std::string>{"/home/ada/a.txt", "b~"}));
  EXPECT_EQ(c.log.dir, "/home/ada");
  EXPECT_EQ(c.schedule.machine, "/home/ada/m.toml");
  EXPECT_EQ(c.train.init, "/home/ada/runs/x");
  EXPECT_EQ(refused("", {"log.dir=~bob/x"}),
            "override log.dir=~bob/x: only ~ and ~/.. are known of home folders; write ./~bob/x for a file of that "
            "name");
  unsetenv("HOME");
  EXPECT_EQ(refused("", {"log.dir=~/x"}),
            "override log.dir=~/x: ~ is the home folder, but HOME says of none; write the path in full");
  setenv("HOME", before.c_str(), 1);
}

TEST(Config, resolving_fills_what_was_left_open) {
  const Config c = resolve(parse_config("", "", Overrides{"mesh.tp=2", "mesh.ep=4", "train.batch_size=8"}));
  EXPECT_EQ(c.model.num_key_value_heads, 4);
  EXPECT_EQ(c.moe.moe_intermediate_size, 512);
  EXPECT_EQ(c.mesh.esp, 2);
  EXPECT_EQ(c.mesh.dp, 4);
  EXPECT_EQ(c.train.micro_batch_size, 2);
  EXPECT_GE(c.mesh.threads, 1);
  EXPECT_EQ(num_ranks(c), 8);
  EXPECT_EQ(expert_data_ranks(c), 1);
  EXPECT_EQ(micro_batches(c), 1);
  EXPECT_EQ(resolve(c), c);
}

TEST(Config, takes_from_a_launcher_what_the_mesh_leaves_open) {
  const Launch launch{.ranks = 8, .rank = 3, .ranks_per_node = 4};
  const Config c = ready_config("", Overrides{"mesh.tp=2", "train.batch_size=8"}, launch);
  EXPECT_EQ(c.mesh.dp, 4);
  EXPECT_EQ(c.mesh.node, 4);
  EXPECT_EQ(ready_config("", Overrides{"mesh.tp=2", "mesh.dp=1", "mesh.node=2"}, launch).mesh.node, 2);
  EXPECT_EQ(ready_config("", Overrides{"mesh.tp=2", "mesh.dp=1"}, launch).mesh.node, 2) << "no more than there are";
  // One rank sends no messages; eight do.
  EXPECT_EQ(ready_config("", Overrides{"schedule.lanes=true", "train.batch_size=8"}, launch).mesh.dp, 8);
}

TEST(Config, shares_out_the_cores_that_a_launcher_may_use) {
  Launch launch{.ranks = 8, .ranks_per_node = 4, .cores = 12};
  EXPECT_EQ(ready_config("", Overrides{"train.batch_size=8"}, launch).mesh.threads, 3);
  launch.cores = 2;
  EXPECT_EQ(ready_config("", Overrides{"train.batch_size=8"}, launch).mesh.threads, 1);
}

TEST(Config, fewer_ranks_than_experts_ask_for_are_told_with_both_numbers) {
  const auto started = [](int ranks, const Overrides& overrides) {
    return refusal([&] { ready_config("", overrides, {.ranks = ranks, .ranks_per_node = ranks}); });
  };
  EXPECT_EQ(started(1, {"mesh.ep=4"}),
            "1 rank started, 4 or a multiple needed: mesh.ep x mesh.esp = 4 x 1; start so many (mpirun -n 4), or "
            "change the mesh");
  EXPECT_EQ(started(2, {"mesh.tp=2", "mesh.ep=2"}),
            "2 ranks started, 4 or a multiple needed: mesh.ep x mesh.esp = 2 x 2; start so many (mpirun -n 4), or "
            "change the mesh");
  EXPECT_EQ(started(8, {"mesh.ep=4"}), "");
}

TEST(Config, what_no_machine_holds_is_refused_before_it_is_counted) {
  EXPECT_EQ(layout_fault({"mesh.tp=4", "mesh.dp=1048576", "train.batch_size=1048576"}),
            "mesh.tp x mesh.dp = 4 x 1048576 are 4194304 ranks, expected at most 1048576");
  EXPECT_EQ(layout_fault({"mesh.ep=8", "mesh.esp=1048576"}).substr(0, 44),
            "mesh.tp x mesh.dp = 1 x 8388608 are 8388608 ");
  EXPECT_EQ(layout_fault({"model.hidden_size=2147483648", "model.intermediate_size=2147483648"}).substr(0, 18),
            "5.7e+20 parameters");
  EXPECT_NE(layout_fault({"train.batch_size=2147483648", "train.seq_length=2147483648"}).find("activations are more"),
            std::string::npos);
  EXPECT_EQ(layout_fault({"train.batch_size=2147483648", "train.micro_batch_size=1", "train.seq_length=16"}),
            "2147483648 micro-batches of a step: raise train.micro_batch_size");
}

TEST(Config, what_is_saved_reads_back_equal) {
  for (const Overrides& overrides :
       {Overrides{},
        {"moe.every=0", "optim.name=sgd", "train.eval_every=0", "data.path=[\"a \\\"b\\\"\", \"c\"]"},
        {"moe.gate=switch", "moe.num_experts_per_tok=1", "moe.capacity=1.1", "optim.lr=0.1", "optim.eps=3e-9"}}) {
    const Config c = parse_config("", "", overrides);
    EXPECT_EQ(parse_config(to_toml(c), "saved"), c) << to_toml(c);
    const Config resolved = resolve(c);
    EXPECT_EQ(to_toml(resolve(parse_config(to_toml(resolved), "saved"))), to_toml(resolved));
  }
}

TEST(Config, the_list_of_keys_is_complete_and_readable) {
  const auto keys = config_keys();
  EXPECT_GT(keys.size(), 70u);
  for (const KeyInfo& key : keys) {
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_EQ(refused("[" + key.name.substr(0, key.name.find('.')) + "]\n" + key.name.substr(key.name.find('.') + 1) +
                      " = " + key.default_value)
                  .find("expected"),
              std::string::npos)
        << key.name;
  }
  EXPECT_NE(config_table(Config()).find("moe.capacity               \"none\" "), std::string::npos)
      << config_table(Config());
}

TEST(Config, has_every_key_that_a_gate_reads) {
  const std::vector<KeyInfo> keys = config_keys();
  for (const GateSpec* gate : built_in().gates)
    for (std::string_view key : gate->keys)
      EXPECT_TRUE(key.empty() || std::ranges::find(keys, key, &KeyInfo::name) != keys.end())
          << gate->name << " " << key;
}

TEST(Config, legal_layouts_pass) {
  for (const Overrides& legal : {Overrides{},
                                 {"mesh.tp=4"},
                                 {"mesh.ep=4", "mesh.node=2", "schedule.lanes=true", "schedule.order=overlap"},
                                 {"mesh.ep=8"},
                                 {"mesh.tp=2", "mesh.ep=2", "mesh.dp=4"},
                                 {"mesh.tp=4", "mesh.esp=2", "mesh.ep=2"},
                                 {"mesh.tp=2", "mesh.esp=4", "mesh.ep=2"},
                                 {"mesh.tp=2", "schedule.moe=ted"},
                                 {"schedule.chunks=4", "schedule.chunks_backward=2"},
                                 {"schedule.chunks_backward=4"},
                                 {"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node"},
                                 {"mesh.ep=4", "mesh.node=2", "schedule.dispatch=levels", "moe.capacity=1"},
                                 {"schedule.moe=s2", "schedule.slice=tokens"},
                                 {"schedule.rows=padded"},
                                 {"mesh.tp=2", "mesh.esp=1", "mesh.ep=4", "mesh.dp=2"}})
    EXPECT_EQ(layout_fault(legal), "") << legal.at(legal.size() - 1);
}

TEST(Config, a_limit_of_memory_is_a_size) {
  EXPECT_EQ(memory_limit(resolve(parse_config("", ""))), std::nullopt);
  EXPECT_EQ(memory_limit(resolve(parse_config("", "", Overrides{"memory.limit=16GB"}))), 16'000'000'000);
  EXPECT_EQ(layout_fault({"memory.limit=much"}),
            "memory.limit = \"much\", expected \"none\" or bytes such as \"16GB\", \"24GiB\" or \"16000000000\"");
}

TEST(Config, an_illegal_layout_names_the_two_numbers) {
  const auto expect = [](const Overrides& overrides, const std::string& fault) {
    EXPECT_EQ(layout_fault(overrides), fault);
  };
  expect({"mesh.tp=3"}, "model.num_attention_heads = 4 is not divisible by mesh.tp = 3");
  expect({"model.num_key_value_heads=2", "mesh.tp=4"},
         "model.num_key_value_heads = 2 is fewer than mesh.tp = 4: each of those ranks needs a key/value head");
  expect({"model.num_attention_heads=12", "model.hidden_size=96", "model.num_key_value_heads=6", "mesh.tp=4"},
         "model.num_key_value_heads = 6 is not divisible by mesh.tp = 4");
  expect({"model.num_key_value_heads=3"},
         "model.num_attention_heads = 4 is not divisible by model.num_key_value_heads = 3");
  expect({"model.vocab_size=255", "mesh.tp=2"}, "model.vocab_size = 255 is not divisible by mesh.tp = 2");
  expect({"moe.every=2", "model.intermediate_size=510", "moe.moe_intermediate_size=512", "mesh.tp=4"},
         "model.intermediate_size = 510 is not divisible by mesh.tp = 4");
  expect({"mesh.ep=3"}, "moe.num_experts = 8 is not divisible by mesh.ep = 3");
  expect({"moe.moe_intermediate_size=510", "mesh.esp=4", "mesh.tp=4"},
         "moe.moe_intermediate_size = 510 is not divisible by mesh.esp = 4");
  expect({"moe.num_experts=1"}, "moe.num_experts_per_tok = 2 is more than moe.num_experts = 1");
  expect({"moe.gate=switch"}, "moe.num_experts_per_tok = 2, but moe.gate = \"switch\" chooses exactly 1: set it to 1");
  expect({"moe.gate=gshard", "moe.num_experts_per_tok=1"},
         "moe.num_experts_per_tok = 1, but moe.gate = \"gshard\" chooses exactly 2: set it to 2");
  expect({"moe.gate=expert_choice"},
         "moe.gate = \"expert_choice\" takes moe.capacity rows for each expert, but it is \"none\"");
  expect({"moe.gate=base", "moe.num_experts_per_tok=1", "moe.group=7"},
         "the tokens that one rank gates = 2048 is not divisible by moe.group = 7");
  expect({"moe.gate=sigmoid", "moe.expert_groups=3"}, "moe.num_experts = 8 is not divisible by moe.expert_groups = 3");
  expect({"moe.gate=sigmoid", "moe.expert_groups=8"},
         "moe.num_experts_per_tok = 2 is more than the 1 experts of moe.kept_groups = 1");
  expect({"moe.shared_experts=1", "moe.moe_intermediate_size=5", "mesh.tp=2", "mesh.esp=1"},
         "moe.shared_experts x moe.moe_intermediate_size = 5 is not divisible by mesh.tp = 2");
  expect({"moe.gate=base", "moe.num_experts_per_tok=1", "schedule.moe=parm", "mesh.tp=2"},
         "moe.gate = \"base\" decides over groups of tokens, but schedule.moe = \"parm\" gates mesh.tp = 2 copies of "
         "them");
  expect({"moe.gate=gshard", "moe.sample=gumbel", "schedule.moe=parm", "mesh.tp=2"},
         "schedule.moe = \"parm\" gates mesh.tp = 2 copies of each token, which moe.sample = \"gumbel\" and moe.jitter "
         "= 0 "
         "would send different ways");
  expect({"model.hidden_size=126"}, "model.hidden_size = 126 is not divisible by model.num_attention_heads = 4");
  expect({"model.hidden_size=12"},
         "model.hidden_size = 12 over model.num_attention_heads = 4 gives heads of size 3; rotary positions need an "
         "even size");
  expect({"train.batch_size=1", "train.seq_length=127", "mesh.tp=2"},
         "train.micro_batch_size x train.seq_length = 127 is not divisible by mesh.tp = 2");
  expect({"train.micro_batch_size=3"},
         "train.batch_size = 16 is not divisible by train.micro_batch_size x mesh.dp = 3");
  expect({"mesh.dp=3"}, "train.batch_size = 16 is not divisible by train.micro_batch_size x mesh.dp = 15");
  expect({"mesh.ep=4", "mesh.dp=2"}, "mesh.tp x mesh.dp = 2 is not divisible by mesh.ep x mesh.esp = 4");
  expect({"mesh.tp=2", "mesh.esp=3", "mesh.ep=2"}, "mesh.esp = 3 is not divisible by mesh.tp = 2");
  expect({"mesh.tp=4", "mesh.esp=2", "mesh.ep=3", "mesh.dp=3", "moe.num_experts=6", "train.batch_size=12"},
         "mesh.ep x mesh.esp = 6 is not divisible by mesh.tp = 4");
  expect({"mesh.tp=2", "mesh.ep=2", "mesh.dp=4", "mesh.node=1"}, "");
  expect({"mesh.ep=2", "mesh.dp=6", "train.batch_size=12", "mesh.node=3"},
         "mesh.node = 3 is not divisible by mesh.ep x mesh.esp = 2");
  expect({"mesh.tp=2", "mesh.ep=4", "mesh.node=16"}, "mesh.tp x mesh.dp = 8 is not divisible by mesh.node = 16");
  expect({"schedule.chunks=3", "schedule.chunks_backward=2"},
         "schedule.chunks = 3 is not divisible by schedule.chunks_backward = 2");
  expect({"schedule.chunks=2", "schedule.chunks_backward=3"},
         "schedule.chunks_backward = 3 is not divisible by schedule.chunks = 2");
  expect({"mesh.tp=2", "mesh.esp=1", "schedule.moe=dtd"},
         "schedule.moe = \"dtd\" needs mesh.esp = mesh.tp, but mesh.esp = 1 and mesh.tp = 2");
  expect({"optim.lr=1e-5"}, "optim.min_lr = 0.0001 is above optim.lr = 1e-05");
  expect({"data.validation=0"}, "train.eval_every = 50 needs text to evaluate on, but data.validation = 0");
}

TEST(Config, a_way_between_nodes_that_does_not_fit_says_why) {
  const auto expect = [](const Overrides& overrides, const std::string& fault) {
    EXPECT_EQ(layout_fault(overrides), fault);
  };
  expect({"mesh.ep=4", "schedule.dispatch=node"},
         "schedule.dispatch = \"node\" is for experts on several nodes, but mesh.ep x mesh.esp = 4 ranks lie within "
         "mesh.node = 4");
  expect(
      {"mesh.tp=2", "mesh.ep=2", "mesh.node=1", "schedule.dispatch=levels"},
      "schedule.dispatch = \"levels\" needs every expert within a node, but mesh.esp = 2 is more than mesh.node = 1");
  expect({"mesh.ep=4", "mesh.node=2", "schedule.dispatch=levels", "schedule.moe=dtd"},
         "schedule.dispatch = \"levels\": schedule.moe = \"dtd\" would join its slices on every level");
  expect({"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node", "schedule.moe=parm"},
         "schedule.dispatch = \"node\": schedule.moe = \"parm\" sends copies of tokens as distinct ones");
  expect({"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node", "moe.capacity=2"},
         "schedule.dispatch = \"node\": moe.capacity = 2 sends slots of experts, not tokens");
  expect({"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node", "schedule.rows=padded"},
         "schedule.dispatch = \"node\": schedule.rows = \"padded\" sends rows that are no tokens");
  expect({"mesh.ep=4", "mesh.node=2", "schedule.dispatch=node", "schedule.moe=s2"},
         "schedule.dispatch = \"node\": schedule.moe = \"s2\" slices rows of experts: set schedule.slice = \"tokens\"");
  expect({"mesh.tp=4", "mesh.esp=2", "mesh.ep=4", "mesh.node=2", "schedule.moe=s2", "moe.capacity=2",
          "schedule.fuse=yes", "schedule.dispatch=levels"},
         "schedule.dispatch = \"levels\": schedule.moe = \"s2\" with moe.capacity needs mesh.tp <= mesh.node, but "
         "mesh.tp = 4 and mesh.node = 2");
}

TEST(Config, a_capacity_that_no_memory_holds_is_refused_before_allocating) {
  EXPECT_EQ(
      layout_fault({"moe.capacity=16384"}),
      "moe.capacity = 16384 gives each expert room for 8388608 rows, more than 8 times the 2048 tokens of its group");
  EXPECT_EQ(layout_fault({"moe.capacity=1", "moe.min_capacity=99999"}),
            "moe.min_capacity = 99999 is more than 8 times the 2048 tokens of its group");
  EXPECT_EQ(layout_fault({"moe.capacity=1", "moe.group=1000"}),
            "the tokens that one rank gates = 2048 is not divisible by moe.group = 1000");
  EXPECT_EQ(layout_fault({"moe.capacity=1", "moe.group=2048", "mesh.tp=2"}),
            "the tokens that one rank gates = 1024 is not divisible by moe.group = 2048");
  EXPECT_EQ(layout_fault({"moe.capacity=1", "moe.group=2048", "mesh.tp=2", "schedule.moe=ted"}), "");
}

TEST(Config, capacity_follows_the_reference_table) {
  struct Case {
    int64_t tokens, experts, chosen;
    double factor;
    int64_t least, capacity;
  };
  for (const Case& k : {Case{8192, 16, 1, 1, 4, 512},
                        {2048, 64, 1, 1, 4, 32},
                        {8192, 128, 1, 1, 4, 64},
                        {10, 4, 1, 1, 4, 4},
                        {10, 4, 1, 1.25, 0, 4},
                        {3, 4, 1, 8, 4, 6},
                        {100, 7, 1, 1.1, 4, 16},
                        {8, 2, 2, 2, 4, 16},
                        {10, 1, 1, 1.1, 0, 11},
                        {12, 4, 1, 1, 0, 3}}) {
    Config c;
    c.moe.num_experts = k.experts, c.moe.num_experts_per_tok = k.chosen;
    c.moe.capacity = k.factor, c.moe.min_capacity = k.least;
    EXPECT_EQ(expert_capacity(c, k.tokens), k.capacity) << k.tokens << " tokens, " << k.experts << " experts";
  }
  EXPECT_THROW(expert_capacity(Config(), 8), ContractError);
}

TEST(Config, experts_stand_in_every_nth_layer) {
  Config c;
  c.moe.every = 2;
  EXPECT_FALSE(has_experts(c, 0));
  EXPECT_TRUE(has_experts(c, 1));
  EXPECT_EQ(num_expert_layers(c), 2);
  c.moe.num_experts = 0;
  EXPECT_FALSE(has_experts(c, 1));
}

}  // namespace
}  // namespace plait
