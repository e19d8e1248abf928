// A family from outside: a config names it, lists it, refuses with it.
#include "config/catalogue.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "config/config.h"
#include "families/family.h"

namespace plait {
namespace {

using Words = std::vector<std::string>;

// s1 whose messages are never fused.
constexpr FamilySpec kTwin = {
    .name = "twin", .help = "s1 in two messages", .at_gate = FamilySpec::AtGate::part, .way_out = gathered};

Catalogue with(std::vector<const FamilySpec*> more) {
  Catalogue all = built_in();
  all.families.insert(all.families.end(), more.begin(), more.end());
  return all;
}

std::string refusal(const auto& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string type_of_moe(const Catalogue& catalogue) {
  for (const KeyInfo& key : config_keys(catalogue))
    if (key.name == "schedule.moe") return key.type;
  return "";
}

TEST(Catalogue, a_family_from_outside_is_read_listed_and_saved) {
  const Catalogue mine = with({&kTwin});
  const Config c = parse_config("schedule.moe = \"twin\"", "run.toml", {}, {}, mine);
  EXPECT_EQ(c.schedule.moe, &kTwin);
  EXPECT_EQ(&*c.catalogue, &mine);
  EXPECT_EQ(type_of_moe(mine), "\"sharded\" | \"ted\" | \"dtd\" | \"s1\" | \"s2\" | \"parm\" | \"twin\" | \"auto\"");
  EXPECT_NE(to_toml(c).find("moe = \"twin\"\n"), std::string::npos);
  EXPECT_EQ(parse_config(to_toml(c), "saved", {}, {}, mine), c);
}

TEST(Catalogue, refusals_name_a_family_from_outside) {
  const Catalogue mine = with({&kTwin});
  EXPECT_EQ(refusal([&] { parse_config("", "", Words{"schedule.moe=twim"}, {}, mine); }),
            "override schedule.moe=twim: schedule.moe = 'twim', expected one of \"sharded\", \"ted\", \"dtd\", \"s1\", "
            "\"s2\", \"parm\", \"twin\", \"auto\"");
  EXPECT_EQ(idle_note(parse_config("", "", Words{"schedule.moe=twin", "schedule.fuse=yes"}, {}, mine)),
            "no effect here: schedule.fuse: twin has no gather that could be fused (schedule.moe)");
  EXPECT_EQ(refusal([&] { parse_config("", "", Words{"schedule.moe=twin"}); }),
            "override schedule.moe=twin: schedule.moe = 'twin', expected one of \"sharded\", \"ted\", \"dtd\", \"s1\", "
            "\"s2\", \"parm\", \"auto\"");
}

TEST(Catalogue, meanings_tell_which_families_a_key_is_about) {
  FamilySpec slicer = families::s2;
  slicer.name = "slicer";
  const Catalogue mine = with({&slicer});
  for (const KeyInfo& key : config_keys(mine)) {
    const bool of_fuse = key.name == "schedule.fuse", of_slice = key.name == "schedule.slice";
    EXPECT_TRUE(!of_fuse || key.meaning.ends_with("auto: in s1, s2 and slicer")) << key.meaning;
    EXPECT_TRUE(!of_slice || key.meaning.starts_with("what s2 and slicer slice behind the gate")) << key.meaning;
  }
  EXPECT_EQ(parse_config("", "", Words{"schedule.moe=slicer", "schedule.slice=tokens"}, {}, mine).schedule.slice,
            Sliced::tokens);
}

TEST(Catalogue, two_of_one_name_are_refused) {
  FamilySpec second = kTwin, any = kTwin;
  second.name = "s1";
  any.name = "auto";
  EXPECT_EQ(refusal([&] { parse_config("", "", {}, {}, with({&second})); }),
            "catalogue: the name \"s1\" of a family is taken; give each its own");
  EXPECT_NE(refusal([&] { parse_config("", "", {}, {}, with({&any})); }), "");
  EXPECT_NE(refusal([&] { parse_config("", "", {}, {}, Catalogue{}); }), "");
}

TEST(Catalogue, a_family_that_cannot_be_written_is_refused) {
  FamilySpec cut = kTwin, nowhere = kTwin;
  cut.between = FamilySpec::Between::cut;
  EXPECT_NO_THROW(parse_config("", "", {}, {}, with({&cut})));
  cut.at_gate = FamilySpec::AtGate::all;
  EXPECT_EQ(refusal([&] { parse_config("", "", {}, {}, with({&cut})); }),
            "catalogue: the family \"twin\" cuts tokens between blocks: set at_gate = part, as its gate gets them so");
  nowhere.way_out = nullptr;
  EXPECT_EQ(refusal([&] { parse_config("", "", {}, {}, with({&nowhere})); }),
            "catalogue: the family \"twin\" has no way_out");
}

TEST(Catalogue, the_first_family_is_the_default) {
  EXPECT_EQ(parse_config("", ""), Config());
  Catalogue turned = with({});
  std::swap(turned.families[0], turned.families[3]);
  EXPECT_EQ(parse_config("", "", {}, {}, turned).schedule.moe, &families::s1);
}

TEST(Catalogue, is_no_part_of_what_a_config_says) {
  const Catalogue mine = with({&kTwin});
  EXPECT_EQ(parse_config("", "", {}, {}, mine), Config());
}

TEST(Catalogue, every_family_has_a_name_a_help_and_a_way_out) {
  for (const FamilySpec* family : built_in().families) {
    EXPECT_FALSE(family->name.empty());
    EXPECT_FALSE(family->help.empty()) << family->name;
    EXPECT_NE(family->way_out, nullptr) << family->name;
  }
}

}  // namespace
}  // namespace plait
