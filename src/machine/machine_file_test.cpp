// A machine through its file, and what a bad file says.
#include "machine/machine_file.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace plait {
namespace {

Machine measured_machine() {
  Machine m = default_machine(2);
  m.name = "two \"quoted\" nodes";
  m.note = "measured";
  m.ranks = 4;
  m.flops = 1.0 / 3e-11;
  m.products = {{512, 1024, 256, 31.5e9}, {64, 64, 64, 4e9}};
  GroupCost group{.digits = {{2, 1}, {2, 4}}, .level = 1};
  group.cost[static_cast<size_t>(Collective::all_to_all)] = {.alpha = 1.1e-4, .beta = 8.01e-9, .r2 = 0.9987};
  m.groups = {group};
  m.pairs = {{.first = {{2, 1}},
              .second = {{2, 2}},
              .first_kind = Collective::all_gather,
              .second_kind = Collective::all_to_all,
              .share = 0.61}};
  return m;
}

const std::string kSmall = R"(name = "m"
[compute]
flops = 1e9
memory_bytes = 1e9
[[level]]
name = "node"
all_reduce = {alpha = 1, beta = 1}
all_gather = {alpha = 1, beta = 1}
reduce_scatter = {alpha = 1, beta = 1}
all_to_all = {alpha = 1, beta = 1}
)";

std::string refused(const std::string& toml) {
  try {
    parse_machine(toml, "m.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  return text.replace(text.find(from), from.size(), to);
}

TEST(MachineFile, reads_back_to_the_same_bits) {
  for (const Machine& m : {measured_machine(), default_machine()})
    EXPECT_EQ(parse_machine(to_toml(m), "m.toml"), m) << to_toml(m);
}

TEST(MachineFile, may_be_written_by_hand) {
  const Machine m = parse_machine(kSmall, "m.toml");
  EXPECT_EQ(m.start, 0);
  EXPECT_EQ(m.levels[0].of(Collective::all_to_all), (MessageCost{1, 1, 1}));
  EXPECT_TRUE(m.groups.empty());
}

TEST(MachineFile, says_in_one_line_what_is_wrong_and_where) {
  EXPECT_EQ(refused("name = "), "m.toml:1: Error while parsing key-value pair: encountered end-of-file");
  EXPECT_EQ(refused(changed("flops", "flop")), "m.toml:2: [compute] lacks flops");
  EXPECT_EQ(refused(changed("flops = 1e9", "flops = 1e9\nmemory_byte = 1")),
            "m.toml:4: unknown key memory_byte in [compute]; the nearest known key is memory_bytes");
  EXPECT_EQ(refused(changed("flops = 1e9", "flops = \"fast\"")),
            "m.toml:3: flops in [compute], expected a number of at least 1");
  EXPECT_EQ(refused(changed("beta = 1", "beta = -1")), "m.toml:7: beta in all_reduce, expected a number of at least 0");
  EXPECT_EQ(refused(changed("alpha = 1, beta = 1", "alpha = 0, beta = 0")),
            "m.toml:7: all_reduce in [[level]], expected alpha or beta above 0");
  EXPECT_EQ(refused(changed("all_gather = {alpha = 1, beta = 1}\n", "")), "m.toml:5: [[level]] lacks all_gather");
  EXPECT_EQ(refused("name = \"m\"\n[compute]\nflops = 1\nmemory_bytes = 1\n"),
            "m.toml: a machine needs at least one [[level]]");
  EXPECT_EQ(refused(kSmall + "[[group]]\ndigits = [[2, 1]]\nlevel = \"rack\"\n"),
            "m.toml:13: level in [[group]], expected the name of a [[level]]");
  EXPECT_EQ(refused(kSmall + "[[group]]\ndigits = [2, 1]\nlevel = \"node\"\n"),
            "m.toml:12: digits in [[group]], expected a list of [size, stride]");
  EXPECT_EQ(refused(kSmall + "[[levle]]\n"),
            "m.toml:11: unknown key levle in a machine; the nearest known key is level");
  EXPECT_EQ(refused(kSmall + "[[pair]]\nfirst = [[2, 1]]\nsecond = [[2, 2]]\nfirst_kind = \"gather\"\n"),
            "m.toml:14: first_kind in [[pair]], expected one of all_reduce, all_gather, reduce_scatter, all_to_all");
}

TEST(MachineFile, that_is_not_there_is_named) {
  try {
    read_machine("no/such.toml");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "no/such.toml: cannot read this machine file");
  }
}

TEST(Digits, of_neighbouring_atoms_are_one_run) {
  const Mesh mesh({.ranks = 16, .tp = 2, .esp = 4, .ep = 2});  // atoms of 2, 2, 2, 2
  const std::vector<Atom> low = {1, 0}, apart = {2, 0}, high = {3, 2, 1};
  EXPECT_EQ(digits_of(mesh, low), (Digits{{4, 1}}));
  EXPECT_EQ(digits_of(mesh, apart), (Digits{{2, 1}, {2, 4}}));
  EXPECT_EQ(digits_of(mesh, high), (Digits{{8, 2}}));
}

TEST(MessageCost, lies_on_the_lines_between_points) {
  const MessageCost cost{.alpha = 1, .beta = 1, .points = {{100, 2e-3}, {200, 3e-3}, {400, 9e-3}}};
  EXPECT_DOUBLE_EQ(cost.seconds(10), 2e-3);
  EXPECT_DOUBLE_EQ(cost.seconds(150), 2.5e-3);
  EXPECT_DOUBLE_EQ(cost.seconds(300), 6e-3);
  EXPECT_DOUBLE_EQ(cost.seconds(800), 18e-3);
}

TEST(MachineFile, keeps_points) {
  Machine m = measured_machine();
  m.groups[0].cost[static_cast<size_t>(Collective::all_to_all)].points = {{256, 1.5e-5}, {65536, 2e-3}};
  m.levels[0].meet = 3e-5;
  m.levels[1].hand_over = 2e-4;
  m.crowding = 0.5;
  EXPECT_EQ(parse_machine(to_toml(m), "a"), m);
}

TEST(FindCost, takes_only_what_was_measured) {
  const Machine m = measured_machine();
  EXPECT_DOUBLE_EQ(find_cost(m, {{2, 1}, {2, 4}}, Collective::all_to_all)->seconds(1e6), 1.1e-4 + 8.01e-3);
  EXPECT_EQ(find_cost(m, {{2, 1}, {2, 4}}, Collective::all_gather), nullptr);
  EXPECT_EQ(find_cost(m, {{2, 1}}, Collective::all_to_all), nullptr);
}

}  // namespace
}  // namespace plait
