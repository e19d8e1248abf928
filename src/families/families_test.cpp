#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files.h"
#include "families/all.h"
#include "families/family.h"

namespace plait {
namespace {

FamilyLayout layout(const FamilySpec& family) { return {.family = family, .tp = 4, .esp = 2, .node = 2}; }

TEST(Families, the_readme_says_of_each_what_its_record_says) {
  const std::string readme = read_text("README.md");
  for (const FamilySpec* family : families::all()) {
    const std::string usual = family == families::all().front() ? " (default)" : "";
    EXPECT_NE(readme.find(fmt::format("| `{}`{} | {} |", family->name, usual, family->help)), std::string::npos)
        << family->name;
  }
}

TEST(Families, that_send_least_and_are_simplest_stand_first_for_choice) {
  std::vector<const FamilySpec*> families = families::all();
  std::ranges::stable_sort(families, {}, &FamilySpec::preference);
  std::string order;
  for (const FamilySpec* family : families) order += fmt::format("{} ", family->name);
  EXPECT_EQ(order, "sharded s1 s2 dtd ted parm ");
}

TEST(Families, gate_all_tokens_or_a_part_or_copies) {
  EXPECT_EQ(families::ted.gated(64, 4, 2), 64);
  EXPECT_EQ(families::s1.gated(64, 4, 2), 16);
  EXPECT_EQ(families::parm.gated(64, 4, 2), 128);
  const Mesh mesh({.ranks = 8, .tp = 4, .esp = 2, .ep = 4});
  EXPECT_EQ(families::sharded.gate_atoms(mesh), mesh.atoms());
  EXPECT_EQ(families::s2.gate_atoms(mesh), mesh.axis(Axis::dp));
  EXPECT_EQ(mesh.count(families::parm.gate_atoms(mesh)), 4);
}

TEST(Families, say_which_layouts_they_do_not_run_at) {
  EXPECT_EQ(esp_refusal(layout(families::ted)),
            "schedule.moe = \"ted\" needs mesh.esp = mesh.tp, but mesh.esp = 2 and mesh.tp = 4");
  EXPECT_EQ(esp_refusal(layout(families::s1)), "");
  FamilyLayout slots = layout(families::s2);
  slots.slots = true;
  EXPECT_EQ(slots_refusal(slots),
            "schedule.fuse = \"no\" with schedule.moe = \"s2\" and moe.capacity needs mesh.tp <= mesh.esp, but mesh.tp "
            "= 4 and mesh.esp = 2");
  slots.fuses = true;
  EXPECT_EQ(slots_refusal(slots), "");
}

TEST(Families, say_how_their_rows_do_not_cross_nodes) {
  FamilyLayout joined = layout(families::dtd), copies = layout(families::parm), cut = layout(families::s2);
  for (FamilyLayout* l : {&joined, &copies, &cut}) {
    EXPECT_EQ(dispatch_refusal(*l) + slice_refusal(*l), "");
    l->dispatch = Dispatch::node;
  }
  EXPECT_EQ(dispatch_refusal(joined), "schedule.moe = \"dtd\" would join its slices on every level");
  EXPECT_EQ(dispatch_refusal(copies), "schedule.moe = \"parm\" sends copies of tokens as distinct ones");
  EXPECT_EQ(slice_refusal(cut), "schedule.moe = \"s2\" slices rows of experts: set schedule.slice = \"tokens\"");
  cut.cuts_rows = false;
  EXPECT_EQ(slice_refusal(cut), "");
  cut.dispatch = Dispatch::levels;
  EXPECT_EQ(dispatch_refusal(cut), "");
  cut.slots = true;
  EXPECT_EQ(dispatch_refusal(cut),
            "schedule.moe = \"s2\" with moe.capacity needs mesh.tp <= mesh.node, but mesh.tp = 4 and mesh.node = 2");
}

TEST(Families, leave_in_one_message_where_they_fuse) {
  const Leaving apart{.tp = {0}, .esp = {1}, .far = {}, .ep = {2}, .own = "g", .cuts = true};
  Leaving fused = apart;
  fused.fuses = true;
  EXPECT_EQ(families::s1.way_out(apart).size(), 2u);
  EXPECT_EQ(families::s1.way_out(fused).size(), 1u);
  EXPECT_EQ(families::s2.way_out(fused).size(), 2u) << "the slice, then the message";
  EXPECT_EQ(families::ted.way_out(fused), families::ted.way_out(apart));
  Leaving levels = fused;
  levels.far = {3};
  EXPECT_EQ(families::sharded.way_out(levels).size(), 2u) << "between nodes first";
}

}  // namespace
}  // namespace plait
