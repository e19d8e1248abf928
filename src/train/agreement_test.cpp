// Ranks that differ say so in one line, at all of them; ranks that agree go on.
#include "train/agreement.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/errors.h"
#include "machine/machine_file.h"
#include "train/trainer.h"
#include "wire/ranks.h"

namespace plait {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kKeys = {"model.hidden_size=16",
                                        "model.num_hidden_layers=1",
                                        "moe.num_experts=4",
                                        "train.seq_length=8",
                                        "train.eval_every=0",
                                        "mesh.tp=2",
                                        "mesh.ep=2"};

Config config_with(std::vector<std::string> more) {
  std::vector<std::string> keys = kKeys;
  keys.insert(keys.end(), more.begin(), more.end());
  return ready_config("", keys);
}

std::vector<AgreedSection> sections(const Planned& run) { return what_ranks_share(run, build_step(run_shape(run))); }

// What four ranks say when rank 3 brings something else.
std::string said(const std::vector<AgreedSection>& usual, const std::vector<AgreedSection>& of_rank_3) {
  std::vector<std::string> heard(4);
  wire::run_ranks({.ranks = 4, .timeout = wire::Seconds(10)}, [&](int rank, wire::World& world) {
    const auto everyone = world.group(rank, {0, 1, 2, 3});
    try {
      agree(*everyone, rank == 3 ? of_rank_3 : usual);
    } catch (const InputError& error) {
      heard[rank] = error.what();
    }
    everyone->barrier();  // all have come back, and the wire still works
  });
  for (const std::string& line : heard) EXPECT_EQ(line, heard[0]);
  EXPECT_EQ(heard[0].find('\n'), std::string::npos);
  return heard[0];
}

TEST(Agreement, lets_ranks_go_on_that_have_the_same) {
  EXPECT_EQ(said(sections(config_with({})), sections(config_with({}))), "");
}

TEST(Agreement, names_the_ranks_and_the_first_key_that_differs) {
  const auto usual = sections(config_with({}));
  EXPECT_EQ(said(usual, sections(config_with({"train.seed=2"}))),
            "agreement: rank 3 has train.seed = 2, ranks 0-2 have 1 (config); start all ranks with the same files and "
            "the same command");
  EXPECT_THAT(said(usual, sections(config_with({"optim.lr=0.002", "train.seed=2"}))),
              HasSubstr("rank 3 has optim.lr = 0.002, ranks 0-2 have 0.001 "));
  EXPECT_THAT(said(usual, sections(config_with({"schedule.moe=s1"}))), HasSubstr("schedule.moe = \"s1\""));
}

TEST(Agreement, names_a_key_that_only_some_ranks_have) {
  EXPECT_THAT(said(sections(config_with({})), sections(config_with({"moe.capacity=2.0"}))),
              HasSubstr("moe.capacity = 2.0, ranks 0-2 have \"none\""));
  EXPECT_THAT(said({{"config", {{"a", "1"}}}}, {{"config", {{"a", "1"}, {"b", "2"}}}}),
              HasSubstr("rank 3 has b = 2, ranks 0-2 have nothing"));
  EXPECT_THAT(said({{"config", {{"a", "1"}}}}, {{"config", {{"c", "1"}}}}), HasSubstr("rank 3 has a = c instead"));
}

TEST(Agreement, sees_another_list_and_other_constants) {
  const Config config = config_with({});
  auto changed = sections(config);
  EXPECT_EQ(changed[3].title, "schedule");
  changed[3].entries[20].value += " ";
  EXPECT_THAT(said(sections(config), changed), HasSubstr("rank 3 has line 21 of the list = "));
  const Machine other = parse_machine(R"(name = "m"
[compute]
flops = 1e9
memory_bytes = 1e9
[[level]]
name = "node"
all_reduce = {alpha = 1, beta = 1}
all_gather = {alpha = 1, beta = 1}
reduce_scatter = {alpha = 1, beta = 1}
all_to_all = {alpha = 1, beta = 1}
)",
                                      "x");
  EXPECT_THAT(said(sections(config), sections({config, other})),
              HasSubstr("rank 3 has name = \"m\", ranks 0-2 have \"a laptop\""));
}

TEST(Agreement, covers_what_a_parameter_is) {
  const auto parts = sections(config_with({}));
  ASSERT_EQ(parts[2].title, "parameters");
  EXPECT_GT(parts[2].entries.size(), 5);
  EXPECT_THAT(parts[2].entries[0].value, testing::AllOf(HasSubstr("="), HasSubstr("seed 1")));
}

}  // namespace
}  // namespace plait
