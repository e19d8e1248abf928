// A family from outside, which is s1 by another name, is written, typed and trained like s1.
#include <gtest/gtest.h>

#include "model/moe_layer.h"
#include "model/step.h"
#include "schedule/text.h"

namespace plait {
namespace {

constexpr FamilySpec kTwin = {
    .name = "twin",
    .help = "s1 in two messages",
    .at_gate = FamilySpec::AtGate::part,
    .way_out = [](const Leaving& from) {
      return std::vector<Legs>{exchange_legs(from.ep, from.own, "E"), gather_legs(from.esp, from.own)};
    }};

ModelSizes sizes_of(const std::string& family, std::vector<std::string> keys, const Catalogue& catalogue) {
  keys.insert(keys.end(), {"schedule.moe=" + family, "model.num_hidden_layers=2", "train.seq_length=16",
                           "moe.num_experts=4", "moe.every=1", "mesh.tp=2", "mesh.ep=2"});
  return model_sizes(ready_config("", keys, {}, catalogue));
}

TEST(OutsideFamily, writes_the_list_of_its_twin) {
  Catalogue mine = built_in();
  mine.families.push_back(&kTwin);
  const Mesh mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{}, {"moe.capacity=1.0"}, {"schedule.chunks=2"}}) {
    std::vector<std::string> apart = keys;
    apart.push_back("schedule.fuse=no");
    const ModelSizes twin = sizes_of("twin", keys, mine), s1 = sizes_of("s1", apart, mine);
    EXPECT_EQ(twin.family, &kTwin);
    const Schedule step = build_step(mesh, twin, {}, {2}).schedule;
    EXPECT_NO_THROW(check(step));
    EXPECT_EQ(print(step), print(build_step(mesh, s1, {}, {2}).schedule));
  }
}

TEST(OutsideFamily, is_rewritten_where_it_says_so) {
  FamilySpec other = families::ted;
  other.name = "other";
  other.rewrite = families::dtd.rewrite;
  ModelSizes sizes{.sequences = 4, .positions = 16, .family = &other, .moe_every = 1, .experts = 4, .top_k = 2};
  const Mesh mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  const std::string rewritten = print(build_model(mesh, sizes).schedule);
  sizes.family = &families::dtd;
  EXPECT_EQ(rewritten, print(build_model(mesh, sizes).schedule));
  sizes.family = &families::ted;
  EXPECT_NE(rewritten, print(build_model(mesh, sizes).schedule));
}

}  // namespace
}  // namespace plait
