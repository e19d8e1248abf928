// What "auto" becomes: the same on all ranks, of one meaning, and for the machine that it is given.
#include "tune/schedule_choice.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "base/errors.h"
#include "base/files.h"
#include "base/testing/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "data/corpus.h"
#include "machine/machine_file.h"
#include "train/memory.h"
#include "train/trainer.h"
#include "wire/ranks.h"

namespace plait {
namespace {

Config auto_config(std::vector<std::string> more) {
  std::vector<std::string> keys = {"model.hidden_size=64",
                                   "model.num_hidden_layers=1",
                                   "moe.num_experts=4",
                                   "train.seq_length=64",
                                   "train.eval_every=0",
                                   "mesh.tp=2",
                                   "mesh.ep=2",
                                   "mesh.node=2",
                                   "schedule.moe=auto"};
  keys.insert(keys.end(), more.begin(), more.end());
  return ready_config("", keys);
}

// Messages that cost by their number, or by their bytes between nodes.
Machine machine(double alpha, double beta) {
  Machine m = default_machine(4);
  m.levels.front().ranks = alpha > 0 ? 4 : 2;
  for (size_t c = 1; c < 5; ++c) {
    m.levels[0].cost[c] = {.alpha = std::max(alpha, 1e-9), .beta = 1e-12};
    m.levels[1].cost[c] = {.alpha = std::max(alpha, 1e-9), .beta = std::max(beta, 1e-12)};
  }
  return m;
}

TEST(Auto, follows_the_machine) {
  const ChosenSchedule few = choose_schedule({auto_config({}), machine(1e-2, 0)}),
                       thin = choose_schedule({auto_config({}), machine(0, 1e-6)});
  EXPECT_NE(few.choices.front().candidate, thin.choices.front().candidate);
  EXPECT_EQ(thin.choices.front().candidate.fuse, Fuse::no) << "fused messages send more between nodes";
  EXPECT_EQ(thin.choices.front().candidate.family, thin.run.config.schedule.moe);
  for (const ChosenSchedule& chosen : {few, thin}) {
    validate(chosen.run.config);
    EXPECT_EQ(choose_schedule(chosen.run).run.config, chosen.run.config) << "what is named is not chosen again";
    EXPECT_EQ(resolve(parse_config(to_toml(chosen.run.config), "saved")).schedule.moe, chosen.run.config.schedule.moe);
  }
}

TEST(Auto, is_the_same_on_ranks_that_were_given_different_machines) {
  const std::string folder = testing::TempDir();
  std::vector<std::string> chosen(4);
  wire::run_ranks({.ranks = 4, .timeout = wire::Seconds(10)}, [&](int rank, wire::World& world) {
    Config mine = auto_config({});
    mine.schedule.machine = fmt::format("{}/machine_{}.toml", folder, rank);
    DurableFile file(mine.schedule.machine);
    file.write(to_toml(machine(rank == 0 ? 1e-2 : 0, rank == 0 ? 0 : 1e-6)));
    file.commit();
    const Planned planned = with_machine_of_first(*world.group(rank, {0, 1, 2, 3}), mine);
    chosen[rank] = to_string(choose_schedule(planned).choices.front().candidate);
  });
  EXPECT_THAT(chosen, testing::Each(chosen[0]));
  EXPECT_EQ(chosen[0], to_string(choose_schedule({auto_config({}), machine(1e-2, 0)}).choices.front().candidate));
  EXPECT_NE(chosen[0], to_string(choose_schedule({auto_config({}), machine(0, 1e-6)}).choices.front().candidate));
}

std::set<std::string> families(const std::vector<std::string>& more) {
  std::set<std::string> all;
  for (const Choice& c : choose_schedule(auto_config(more)).choices) all.insert(std::string(c.candidate.family->name));
  return all;
}

TEST(Auto, chooses_only_among_what_computes_the_same) {
  EXPECT_EQ(families({}), (std::set<std::string>{"dtd", "parm", "s1", "s2", "sharded", "ted"}));
  EXPECT_EQ(families({"moe.capacity=1.0"}), (std::set<std::string>{"dtd", "s1", "s2", "sharded", "ted"}))
      << "copies of tokens would be dropped";
  EXPECT_EQ(families({"moe.aux_scope=local"}), (std::set<std::string>{"s1", "sharded"}))
      << "other gates see other tokens";
  EXPECT_EQ(families({"moe.capacity=1.005", "moe.min_capacity=0"}), (std::set<std::string>{"s1", "sharded", "ted"}))
      << "an odd number of slots is not cut over two ranks";
}

// A family that is s1 by another name, and the only one beside the usual one.
TEST(Auto, chooses_among_the_families_that_the_config_was_read_with) {
  FamilySpec twin = families::s1;
  twin.name = "twin";
  Catalogue two = built_in();
  two.families = {&families::sharded, &twin};
  Config config = auto_config({"schedule.lanes=true"});
  config.catalogue = two;
  const ChosenSchedule chosen = choose_schedule(config);
  std::set<const FamilySpec*> seen;
  for (const Choice& c : chosen.choices) seen.insert(c.candidate.family);
  EXPECT_EQ(seen, (std::set<const FamilySpec*>{&families::sharded, &twin}));
  std::vector<Choice> at_rank_1;
  wire::run_ranks({.ranks = 2, .timeout = wire::Seconds(10)}, [&](int rank, wire::World& world) {
    const std::vector<Choice> mine = rank == 0 ? chosen.choices : std::vector<Choice>{};
    std::vector<Choice> theirs = of_first(*world.group(rank, {0, 1}), mine, two.families);
    if (rank == 1) at_rank_1 = std::move(theirs);
  });
  ASSERT_EQ(at_rank_1.size(), chosen.choices.size());
  for (size_t i = 0; i < at_rank_1.size(); ++i) EXPECT_EQ(at_rank_1[i].candidate, chosen.choices[i].candidate);
}

TEST(Auto, keeps_the_gate_groups_of_sharded_in_every_family) {
  Config config = auto_config({"moe.capacity=1.0"});
  const int64_t group = 16 / 2 * 64 / 2;  // of the tokens of a data rank, half
  for (double alpha : {1e-2, 0.}) {
    const ChosenSchedule chosen = choose_schedule({config, machine(alpha, 1e-6)});
    EXPECT_EQ(model_sizes(chosen.run.config).group, group);
  }
}

TEST(Auto, tells_by_name_what_it_decides) {
  for (const char* key : {"schedule.fuse=yes", "schedule.chunks=2", "schedule.chunks_backward=2"})
    EXPECT_THAT(idle_note(auto_config({key})), testing::HasSubstr("it is chosen (schedule.moe = \"auto\")"));
  EXPECT_EQ(auto_config({"schedule.lanes=true", "schedule.order=overlap"}), auto_config({"schedule.lanes=true"}));
  EXPECT_EQ(choose_schedule(auto_config({"schedule.lanes=true"})).run.config.schedule.order, StepOrder::overlap);
}

TEST(Auto, tries_its_favourites_on_the_ranks_and_takes_the_fastest) {
  const ScratchFolder folder;
  std::vector<std::string> told;
  const Config config = auto_config({"schedule.trials=3", "log.dir=" + folder.str()});
  const ChosenSchedule chosen =
      tried_schedule(config, agreed_schedule(config), [&](const std::string& line) { told.push_back(line); });
  EXPECT_EQ(chosen.by, ChosenSchedule::By::trial);
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told.front(), fmt::format("tries 2 of {} schedules of a layer", chosen.choices.size()));
  // What the clock said of those two may leave the others without hope.
  EXPECT_THAT(told[1], testing::AnyOf("tries 0 more", "tries 1 more"));
  EXPECT_EQ(chosen.run.config.schedule.moe, chosen.choices.front().candidate.family);
  const auto first_untried = std::ranges::find(chosen.choices, 0., &Choice::measured);
  EXPECT_EQ(first_untried - chosen.choices.begin(), told[1] == "tries 1 more" ? 3 : 2);
  EXPECT_EQ(std::count_if(first_untried, chosen.choices.end(), [](const Choice& c) { return c.measured > 0; }), 0)
      << "those that were tried stand first";
  EXPECT_EQ(chosen.choices.size(), choose_schedule(auto_config({})).choices.size());
  validate(chosen.run.config);
  EXPECT_EQ(tried_schedule(chosen.run.config, agreed_schedule(chosen.run.config)).run.config, chosen.run.config)
      << "what is named is not chosen again";
}

TEST(Auto, without_trials_takes_what_is_predicted) {
  const ScratchFolder folder;
  const Config config = auto_config({"schedule.trials=0", "log.dir=" + folder.str()});
  const ChosenSchedule chosen = tried_schedule(config, agreed_schedule(config));
  EXPECT_EQ(chosen.by, ChosenSchedule::By::prediction);
  EXPECT_EQ(chosen.run.config, choose_schedule(config).run.config);
}

// Of a run in this folder that got as far as one step.
void save_run_of(const Config& config) {
  save_checkpoint(
      config.log.dir,
      {.state = {.step = 1, .seed = 1, .config = to_toml(config), .more = {}}, .model = {}, .optimizer = {}, .get = {}},
      1);
}

TEST(Auto, goes_on_from_a_checkpoint_with_the_schedule_that_wrote_it) {
  // s2 sends fused messages where nothing else is said.
  for (const auto& [written, fuse] : {std::pair{&families::ted, Fusing::by_family},
                                      {&families::s2, Fusing::yes},
                                      {&families::s2, Fusing::by_family},
                                      {&families::s1, Fusing::no}}) {
    const ScratchFolder folder;
    const Config config = auto_config({"schedule.trials=2", "log.dir=" + folder.str()});
    Config begun = config;
    begun.schedule.moe = written;
    begun.schedule.fuse = fuse;
    save_run_of(begun);
    const ChosenSchedule chosen = tried_schedule(config, agreed_schedule(config));
    EXPECT_EQ(chosen.by, ChosenSchedule::By::checkpoint);
    EXPECT_EQ(chosen.run.config.schedule.moe, written);
    EXPECT_EQ(model_sizes(chosen.run.config).fuse, model_sizes(begun).fuse) << written->name << " " << word(fuse);
    EXPECT_EQ(chosen.choices.front().candidate.family, written);
  }
}

TEST(Auto, tries_again_where_the_checkpoint_was_written_by_what_does_not_stand_to_choose) {
  const ScratchFolder folder;
  const Config config = auto_config({"schedule.trials=2", "log.dir=" + folder.str()});
  for (const std::string saved : {"[schedule]\nmoe = \"s3\"\n", "[schedule]\nmoe = \"s1\"\nchunks = 4\n"}) {
    save_checkpoint(config.log.dir, {.state = {.step = 1, .seed = 1, .config = saved}, .get = {}}, 1);
    EXPECT_EQ(tried_schedule(config, agreed_schedule(config)).by, ChosenSchedule::By::trial) << saved;
  }
}

TEST(Auto, tries_nothing_that_does_not_fit_the_memory_of_a_rank) {
  const ScratchFolder folder;
  Config config = auto_config({"schedule.trials=9", "log.dir=" + folder.str()});
  const auto tried_families = [&] {
    std::set<std::string> all;
    for (const Choice& c : tried_schedule(config, agreed_schedule(config)).choices)
      if (c.measured > 0) all.insert(std::string(c.candidate.family->name));
    return all;
  };
  EXPECT_TRUE(tried_families().contains("ted"));
  Config tight = config;
  tight.schedule.moe = &families::sharded;
  config.memory.limit = std::to_string(predict_memory(tight).peak.total());
  const std::set<std::string> left = tried_families();
  EXPECT_TRUE(left.contains("sharded"));
  EXPECT_FALSE(left.contains("ted")) << "it holds copies of tokens";
}

TEST(Auto, of_a_model_without_experts_is_the_usual_schedule) {
  const ChosenSchedule chosen =
      choose_schedule(ready_config("", std::vector<std::string>{"moe.every=0", "schedule.moe=auto", "mesh.tp=2"}));
  EXPECT_EQ(chosen.run.config.schedule.moe, &families::sharded);
  EXPECT_TRUE(chosen.choices.empty());
}

}  // namespace
}  // namespace plait
