// The choice of a schedule: what is legal, that the fastest wins, and that imbalance and shards of experts count.
#include "plan/choose.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/errors.h"
#include "model/moe_layer.h"
#include "schedule/builder.h"

namespace plait {
namespace {

ModelSizes sizes() {
  ModelSizes s{.sequences = 8, .positions = 64, .width = 64, .moe_every = 1};
  s.experts = 8, s.top_k = 2, s.expert_ffn = 128;
  return s;
}

// Messages between nodes cost what is given; all else is fast.
Machine machine(MessageCost inside, MessageCost between) {
  Machine m = default_machine(2);
  for (size_t c = 1; c < 5; ++c) m.levels[0].cost[c] = inside, m.levels[1].cost[c] = between;
  return m;
}

const Mesh kEight({.ranks = 8, .tp = 2, .esp = 2, .ep = 4});

double seconds(const std::vector<Choice>& choices, const Candidate& c) {
  const auto it = std::ranges::find(choices, c, &Choice::candidate);
  return it == choices.end() ? -1 : it->seconds;
}

TEST(Choices, are_all_families_fused_or_not_and_fastest_first) {
  const std::vector<Choice> all = choices(kEight, sizes(), default_machine(2));
  std::set<std::string> names;
  for (const Choice& c : all) names.insert(to_string(c.candidate));
  EXPECT_EQ(names, (std::set<std::string>{"dtd", "parm", "s1", "s1 fused", "s2", "s2 fused", "sharded", "sharded fused",
                                          "ted"}));
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &Choice::seconds));
  EXPECT_GT(all.front().seconds, 0);
}

TEST(Choices, between_slow_nodes_send_least_over_them) {
  // Fused messages send esp times more between nodes; with one price for all of them they would win by fewer messages.
  const auto slow = choices(kEight, sizes(), machine({1e-6, 1e-11}, {1e-4, 1e-7}));
  EXPECT_EQ(slow.front().candidate.fuse, Fuse::no);
  EXPECT_GT(seconds(slow, {&families::s1, Fuse::yes}), 1.5 * seconds(slow, {&families::s1, Fuse::no}));
}

TEST(Choices, take_fused_messages_where_starting_them_is_what_costs) {
  Machine m = machine({1e-3, 1e-12}, {1e-3, 1e-12});
  m.levels[0].ranks = 8;
  const auto all = choices(kEight, sizes(), m);
  for (const FamilySpec* family : {&families::s1, &families::s2, &families::sharded})
    EXPECT_LT(seconds(all, {family, Fuse::yes}), seconds(all, {family, Fuse::no}) - 2e-3);
  // What was measured for groups of one shape counts more than the level.
  GroupCost fused{.digits = {{8, 1}}};
  fused.cost[static_cast<size_t>(Collective::all_to_all)] = {.alpha = 5e-3, .beta = 1e-12};
  m.groups = {fused};
  EXPECT_GT(seconds(choices(kEight, sizes(), m), {&families::s1, Fuse::yes}),
            seconds(all, {&families::s1, Fuse::no}) + 2e-3);
}

TEST(Choices, use_chunks_only_where_messages_have_lanes) {
  for (const Choice& c : choices(kEight, sizes(), default_machine(2))) {
    EXPECT_EQ(c.candidate.chunks, 1);
    EXPECT_EQ(c.candidate.chunks_backward, 1);
  }
  Machine m = machine({1e-7, 1e-10}, {1e-7, 1e-7});  // a wire about as fast as the experts
  m.start = 0, m.flops = 2e9;
  ModelSizes large = sizes();
  large.expert_ffn = 256;
  const auto all = choices(kEight, large, m, {.lanes = NodeLanes{2}});
  EXPECT_GT(all.front().candidate.chunks, 1);
  EXPECT_EQ(all.front().candidate.lanes, NodeLanes{2});
  EXPECT_LT(all.front().seconds, .9 * seconds(all, {all.front().candidate.family, all.front().candidate.fuse}));
}

TEST(Choices, take_the_fewest_parts_where_more_bring_nothing) {
  const auto all = choices(kEight, sizes(), machine({1e-9, 1e-15}, {1e-9, 1e-15}), {.lanes = NodeLanes{2}});
  EXPECT_EQ(all.front().candidate.parts(), 2) << to_string(all.front().candidate);
  const double least = std::ranges::min(all, {}, &Choice::seconds).seconds;
  EXPECT_LE(all.front().seconds, (1 + kAlike) * least);
  const auto rounded = [](const Choice& c) { return std::llround(c.seconds * 1e9); };
  EXPECT_TRUE(std::ranges::is_sorted(all.begin() + 1, all.end(), {}, rounded));
}

std::string kind(const Candidate& c) {
  return fmt::format("{} {} {}", c.family->name, c.fuse == Fuse::yes, c.lanes.has_value());
}

TEST(Favourites, are_the_best_of_every_kind) {
  const auto all = choices(kEight, sizes(), machine({1e-6, 1e-9}, {1e-6, 1e-8}), {.lanes = NodeLanes{2}});
  const std::vector<Choice> some = favourites(all, 6);
  ASSERT_GE(some.size(), 4u);
  EXPECT_EQ(some.front().candidate, all.front().candidate);
  std::set<std::string> kinds;
  std::set<int64_t> told;
  for (size_t i = 0; i < some.size(); ++i) {
    const Candidate& c = some[i].candidate;
    EXPECT_LE(some[i].seconds, 1.5 * all.front().seconds) << to_string(c);
    EXPECT_TRUE(told.insert(std::llround(some[i].seconds * 1e10)).second) << to_string(c) << ": as another one";
    EXPECT_TRUE(kinds.insert(kind(c)).second) << to_string(c) << ": its kind stands there already";
    const auto better = [&](const Choice& other) {
      return kind(other.candidate) == kind(c) && other.seconds < some[i].seconds - 1e-10;
    };
    EXPECT_TRUE(i == 0 || std::ranges::none_of(all, better)) << to_string(c) << ": not the best of its kind";
  }
}

TEST(Favourites, are_no_more_than_asked_for_and_none_that_is_hopeless) {
  const auto all = choices(kEight, sizes(), machine({1e-6, 1e-11}, {1e-4, 1e-7}));
  EXPECT_TRUE(favourites(all, 0).empty());
  EXPECT_EQ(favourites(all, 1).size(), 1u);
  const auto near = [&](const Choice& c) { return c.seconds <= 1.5 * all.front().seconds; };
  EXPECT_LT(std::ranges::count_if(all, near), static_cast<int64_t>(all.size()));
  EXPECT_LE(favourites(all, 100).size(), static_cast<size_t>(std::ranges::count_if(all, near)));
}

// All are predicted well but one kind, which takes `off` times as long.
std::vector<Choice> tried_with(std::vector<Choice> some, const std::string& kind_off, double off) {
  for (Choice& c : some) c.measured = c.seconds * (kind(c.candidate) == kind_off ? off : 1);
  return some;
}

TEST(FavouritesNext, are_of_the_kinds_that_were_fast_when_tried) {
  const auto all = choices(kEight, sizes(), machine({1e-6, 1e-9}, {1e-6, 1e-8}), {.lanes = NodeLanes{2}});
  const std::vector<Choice> some = favourites(all, 6);
  std::string last;  // the slowest kind that has lanes, so chunks to choose
  for (const Choice& c : some)
    if (c.candidate.lanes) last = kind(c.candidate);
  const auto of_last = [&](double off) {
    const std::vector<Choice> next = favourites_next(all, tried_with(some, last, off), 4);
    EXPECT_FALSE(next.empty());
    for (const Choice& c : next) {
      EXPECT_EQ(std::ranges::count(some, c.candidate, &Choice::candidate), 0) << to_string(c.candidate);
      EXPECT_EQ(std::ranges::count(next, c.candidate, &Choice::candidate), 1) << to_string(c.candidate);
      EXPECT_EQ(c.measured, 0);
      EXPECT_EQ(c.seconds, std::ranges::find(all, c.candidate, &Choice::candidate)->seconds) << "as it was predicted";
    }
    return std::ranges::count_if(next, [&](const Choice& c) { return kind(c.candidate) == last; });
  };
  EXPECT_EQ(of_last(2), 0) << "twice as slow as predicted";
  EXPECT_GT(of_last(.25), 1) << "four times as fast";
}

TEST(FavouritesNext, are_none_where_nothing_was_tried) {
  const auto all = choices(kEight, sizes(), machine({1e-6, 1e-9}, {1e-6, 1e-8}), {.lanes = NodeLanes{2}});
  EXPECT_TRUE(favourites_next(all, {}, 4).empty());
  EXPECT_TRUE(favourites_next(all, favourites(all, 3), 0).empty());
}

TEST(PredictedSeconds, of_lanes_count_handing_over_and_pairs) {
  Builder b{kEight};
  const Atoms tp = b.mesh().axis(Axis::tp), ep = b.mesh().axis(Axis::ep);
  b.gather(b.leaf(LeafKind::parameter, "x", {{"T", 512, stack_of(tp)}}), tp, "T");
  b.gather(b.leaf(LeafKind::parameter, "y", {{"T", 512, stack_of(ep)}}), ep, "T");
  const Schedule s = b.take();
  Machine m = machine({3, 1e-12}, {3, 1e-12});  // both messages take three seconds
  for (Level& level : m.levels) level.hand_over = 0;
  EXPECT_NEAR(predicted_seconds(s, m, {}), 6, 1e-6);
  EXPECT_NEAR(predicted_seconds(s, m, NodeLanes{2}), 3, 1e-6) << "one within the node, one between nodes";
  for (Level& level : m.levels) level.hand_over = 0.25;
  EXPECT_NEAR(predicted_seconds(s, m, {}), 6, 1e-6);
  EXPECT_NEAR(predicted_seconds(s, m, NodeLanes{2}), 3.25, 1e-6);
  for (Level& level : m.levels) level.hand_over = 0;
  m.pairs = {{{{2, 1}}, {{4, 2}}, Collective::all_gather, Collective::all_gather, 0.75}};
  EXPECT_NEAR(predicted_seconds(s, m, NodeLanes{2}), 4.5, 1e-6) << "0.75 of six seconds";
  m.pairs[0].first_kind = Collective::all_to_all;
  m.pairs.push_back({{}, {}, Collective::all_gather, Collective::all_gather, 1.25});
  EXPECT_NEAR(predicted_seconds(s, m, NodeLanes{2}), 6, 1e-6) << "the mean where this pair was not measured";
}

Fusing fuse_word(const Candidate& c) {
  const bool takes = c.family == &families::s1 || c.family == &families::s2 || c.family == &families::sharded;
  return !takes ? Fusing::by_family : c.fuse == Fuse::yes ? Fusing::yes : Fusing::no;
}

// The config that asks for a candidate by name, with the gate groups of `base`.
Config asking_for(const Config& base, const Candidate& c) {
  Config config = base;
  config.schedule.moe = c.family;
  config.schedule.fuse = fuse_word(c);
  config.schedule.chunks = c.chunks;
  config.schedule.chunks_backward = c.chunks_backward;
  if (base.moe.capacity || base.moe.gate->route->chooser == Chooser::group) config.moe.group = gate_group(base);
  return config;
}

// By the rules of configs: accepted, and with the same groups and slots.
bool accepted(const Config& base, const Candidate& c) {
  const Config config = asking_for(base, c);
  try {
    validate(config);
  } catch (const InputError&) {
    return false;
  }
  const ModelSizes mine = model_sizes(config), theirs = model_sizes(base);
  return mine.group == theirs.group && mine.capacity == theirs.capacity && mine.aux_group == theirs.aux_group;
}

TEST(Legal, is_what_a_config_accepts_and_a_layer_can_be_written_with) {
  const std::vector<std::vector<std::string>> layouts = {{"mesh.tp=2", "mesh.ep=2"},
                                                         {"mesh.tp=4", "mesh.esp=2", "mesh.ep=4"},
                                                         {"mesh.tp=1", "mesh.esp=2", "mesh.ep=2"},
                                                         {"mesh.tp=4", "mesh.esp=1", "mesh.ep=4"},
                                                         {"mesh.tp=2", "mesh.ep=2", "mesh.dp=4", "mesh.node=2"}};
  const std::vector<std::vector<std::string>> kinds = {{},
                                                       {"moe.capacity=1.0"},
                                                       {"moe.capacity=1.5", "moe.drop=rts"},
                                                       {"moe.capacity=4.0"},
                                                       {"moe.gate=base", "moe.num_experts_per_tok=1"},
                                                       {"moe.gate=expert_choice", "moe.capacity=1.0"},
                                                       {"moe.gate=noisy_topk"},
                                                       {"moe.jitter=0.1"},
                                                       {"schedule.dispatch=node", "mesh.ep=4", "mesh.node=4"},
                                                       {"schedule.dispatch=levels", "mesh.ep=4", "mesh.node=4"}};
  int seen = 0, good = 0;
  for (const auto& layout : layouts)
    for (const auto& kind : kinds) {
      std::vector<std::string> keys = {"moe.num_experts=4", "model.num_hidden_layers=1", "train.seq_length=16"};
      keys.insert(keys.end(), layout.begin(), layout.end());
      keys.insert(keys.end(), kind.begin(), kind.end());
      Config base;
      try {
        base = ready_config("", keys);
      } catch (const InputError&) {
        continue;  // nodes that do not fit the layout
      }
      const MeshSize size{.ranks = static_cast<int>(num_ranks(base)),
                          .tp = static_cast<int>(base.mesh.tp),
                          .esp = static_cast<int>(base.mesh.esp),
                          .ep = static_cast<int>(base.mesh.ep),
                          .node = base.schedule.dispatch == Dispatch::direct ? 0 : static_cast<int>(base.mesh.node)};
      const Mesh mesh(size);
      for (const FamilySpec* family : families::all())
        for (Fuse fuse : {Fuse::no, Fuse::yes})
          for (const auto& [chunks, backward] : {std::pair<int64_t, int64_t>{1, 1}, {2, 4}, {2, 3}}) {
            const Candidate c{family, fuse, chunks, backward};
            if (fuse == Fuse::yes && (size.ep == 1 || size.esp == 1 || fuse_word(c) == Fusing::by_family)) continue;
            const bool mine = legal(mesh, model_sizes(base), c);
            EXPECT_EQ(mine, accepted(base, c)) << to_string(c) << "\n" << to_toml(base);
            ++seen;
            if (!mine) continue;
            ++good;
            EXPECT_NO_THROW(check(build_moe_layer(mesh, with(model_sizes(base), c)).schedule)) << to_string(c);
          }
    }
  EXPECT_GT(good, 300);
  EXPECT_GT(seen - good, 300);
}

// Planning needs no cluster, and knows imbalance and shards of experts.
TEST(Plan, prices_imbalance_and_shards_of_experts) {
  Machine m = machine({1e-9, 1e-15}, {1e-9, 1e-15});
  m.start = 0, m.memory_bytes = 1e18;
  const Mesh one({.ranks = 4, .tp = 1, .esp = 1, .ep = 4}), two({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  const auto seconds_of = [&](const Mesh& mesh, double busiest) {
    return seconds(choices(mesh, sizes(), m, {.load = {.busiest = busiest}}), {&families::sharded});
  };
  EXPECT_NEAR(seconds_of(one, 3) / seconds_of(one, 1), 3, .05) << "the busiest rank's experts are what all wait for";
  EXPECT_NEAR(seconds_of(two, 1) / seconds_of(one, 1), 1, .05) << "half of each of twice as many experts";
  const Mesh sharded({.ranks = 4, .tp = 1, .esp = 4, .ep = 1});
  EXPECT_NEAR(seconds_of(sharded, 3) / seconds_of(sharded, 1), 1, .01) << "all ranks share every expert";
}

}  // namespace
}  // namespace plait
