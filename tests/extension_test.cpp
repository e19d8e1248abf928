// A family, a gate, an op and an architecture from outside src/, in one model: each is a file of extension/. A config
// names them, its refusals too, and what is trained over four ranks is what one rank computes.
#include "extension/extension.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"
#include "corpus.h"
#include "schedule/text.h"
#include "train/run_shape.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

Config extended(const Overrides& more = {}) {
  Overrides all = {"model.architecture=adapters",
                   "schedule.moe=gather_first",
                   "moe.gate=softplus",
                   "model.hidden_size=16",
                   "model.num_hidden_layers=2",
                   "moe.num_experts=4",
                   "moe.moe_intermediate_size=12",
                   "train.batch_size=8",
                   "train.seq_length=8",
                   "mesh.threads=1"};
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all, {}, extension::catalogue());
}

TEST(Extension, is_trained_over_four_ranks_as_on_one) {
  const data::Corpus corpus = random_corpus(4000);
  for (const Overrides& layout : {Overrides{"mesh.tp=2", "mesh.ep=2"},
                                  {"mesh.ep=2", "mesh.esp=2", "mesh.tp=1"},
                                  {"mesh.ep=4"},
                                  {"mesh.tp=2", "mesh.ep=2", "memory.zero=3", "memory.recompute=full"},
                                  {"mesh.tp=2", "mesh.ep=2", "schedule.lanes=true", "schedule.order=overlap"}}) {
    const Config config = extended(layout);
    EXPECT_EQ(num_ranks(config), 4);
    const VerifyReport report = verify(config, corpus);
    EXPECT_TRUE(report.agrees()) << fmt::format("{}: {}", fmt::join(layout, " "), report.largest());
  }
}

TEST(Extension, is_in_the_list_of_one_step) {
  const Schedule step = build_step(run_shape(extended({"mesh.tp=2", "mesh.ep=2"}))).schedule;
  const std::string text = print(step);
  for (const char* part : {"softcap(%", "softcap_grad(%", "gate=softplus"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  const Catalogue& all = extension::catalogue();
  EXPECT_EQ(print(parse_schedule(text, "schedule text", {.gates = all.gates, .ops = all.ops})), text);
}

TEST(Extension, is_seen_in_the_list_of_keys) {
  std::map<std::string, std::string> types;
  for (const KeyInfo& key : config_keys(extension::catalogue())) types[key.name] = key.type;
  EXPECT_NE(types.at("schedule.moe").find("\"gather_first\""), std::string::npos) << types.at("schedule.moe");
  EXPECT_NE(types.at("moe.gate").find("\"softplus\""), std::string::npos) << types.at("moe.gate");
  EXPECT_NE(types.at("model.architecture").find("\"adapters\""), std::string::npos);
  const std::string table = config_table(extended());
  for (const char* name : {"gather_first", "softplus", "adapters"})
    EXPECT_NE(table.find(name), std::string::npos) << name;
}

TEST(Extension, is_named_by_refusals) {
  const auto said = [](const char* slip) { return refusal<InputError>([&] { extended({slip}); }); };
  EXPECT_NE(said("schedule.moe=gather_frist").find("\"gather_first\""), std::string::npos);
  EXPECT_NE(said("moe.gate=soft").find("\"softplus\""), std::string::npos);
  EXPECT_NE(said("model.architecture=adaptors").find("\"adapters\""), std::string::npos);
  EXPECT_EQ(
      idle_note(extended({"moe.jitter=0.1"})),
      "no effect here: moe.jitter: only softmax, switch, gshard, sigmoid, expert_choice, base, noisy_topk read it "
      "(moe.gate = \"softplus\")");
}

TEST(Extension, needs_names_of_its_own) {
  const auto refused = [](auto add) {
    Catalogue c = extension::catalogue();
    add(c);
    return refusal<InputError>([&] { check_catalogue(c); });
  };
  EXPECT_EQ(refused([](Catalogue& c) { c.gates.push_back(&extension::softplus); }),
            "catalogue: the name \"softplus\" of a gate is taken; give each its own");
  EXPECT_EQ(refused([](Catalogue& c) { c.families.push_back(&extension::gather_first); }),
            "catalogue: the name \"gather_first\" of a family is taken; give each its own");
  EXPECT_NE(refused([](Catalogue& c) { c.ops.push_back(&extension::softcap); }).find("op softcap: "),
            std::string::npos);
}

}  // namespace
}  // namespace plait
