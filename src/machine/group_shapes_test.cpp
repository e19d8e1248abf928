#include "machine/group_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace plait {
namespace {

std::string all_of(int ranks) {
  std::vector<std::string> names;
  for (const Digits& digits : group_shapes(ranks)) names.push_back(text(digits));
  return join(names, ", ");
}

TEST(GroupShapes, are_all_boxes_of_digits) {
  EXPECT_EQ(all_of(1), "");
  EXPECT_EQ(all_of(2), "2");
  EXPECT_EQ(all_of(4), "2, 2 every 2, 4");
  EXPECT_EQ(all_of(8), "2, 2 every 2, 2 every 4, 2 x 2 every 4, 4, 4 every 2, 8");
  EXPECT_EQ(all_of(6), "2, 2 every 3, 3, 3 every 2, 6");
}

std::vector<Mesh> every_mesh(int ranks) {
  std::vector<Mesh> all;
  for (int tp = 1; tp <= ranks; ++tp)
    for (int esp = 1; esp <= ranks; ++esp)
      for (int node = 1; node <= ranks; ++node) {
        std::vector<int> cuts = {tp, esp, node, ranks};
        std::ranges::sort(cuts);
        const bool nested = cuts[1] % cuts[0] == 0 && cuts[2] % cuts[1] == 0 && cuts[3] % cuts[2] == 0;
        if (nested) all.emplace_back(MeshSize{.ranks = ranks, .tp = tp, .esp = esp, .node = node});
      }
  return all;
}

void expect_known(const Mesh& mesh, const std::vector<Atom>& atoms, const std::vector<Digits>& shapes) {
  const Digits digits = digits_of(mesh, atoms);
  EXPECT_TRUE(std::ranges::find(shapes, digits) != shapes.end()) << mesh.ranks() << ": " << text(digits);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<int> group = mesh.group(rank, atoms);
    std::ranges::sort(group);
    EXPECT_EQ(members(digits, rank), group) << text(digits);
  }
}

TEST(GroupShapes, hold_every_group_of_every_mesh) {
  for (int ranks : {2, 6, 8, 12}) {
    const std::vector<Mesh> meshes = every_mesh(ranks);
    EXPECT_GE(meshes.size(), 8u);
    for (const Mesh& mesh : meshes)
      for (unsigned bits = 1; bits < 1u << mesh.num_atoms(); ++bits) {
        std::vector<Atom> atoms;
        for (int a = 0; a < mesh.num_atoms(); ++a)
          if (bits >> a & 1) atoms.push_back(a);
        expect_known(mesh, atoms, group_shapes(ranks));
      }
  }
}

TEST(GroupShapes, reach_across_nodes_where_a_group_has_two) {
  EXPECT_EQ(reach({{2, 1}}, 8, 4), Reach::within_nodes);
  EXPECT_EQ(reach({{4, 1}}, 8, 4), Reach::within_nodes);
  EXPECT_EQ(reach({{2, 4}}, 8, 4), Reach::across_nodes);
  EXPECT_EQ(reach({{4, 2}}, 8, 4), Reach::across_nodes);
  EXPECT_EQ(reach({{2, 1}}, 8, 1), Reach::across_nodes);
  EXPECT_EQ(reach({{8, 1}}, 8, 8), Reach::within_nodes);
  EXPECT_EQ(reach({{2, 1}}, 6, 3), Reach::across_nodes);  // ranks 2 and 3
}

TEST(GroupShapes, pair_one_across_with_one_within_and_no_digit_twice) {
  std::vector<std::string> names;
  for (const ShapePair& pair : shape_pairs(8, 4)) names.push_back(text(pair.across) + " + " + text(pair.within));
  EXPECT_EQ(join(names, ", "),
            "2 every 4 + 2, 2 every 4 + 2 every 2, 2 every 4 + 4, 2 x 2 every 4 + 2 every 2, 4 every 2 + 2");
  EXPECT_TRUE(shape_pairs(8, 8).empty());
  EXPECT_TRUE(shape_pairs(8, 1).empty());
}

}  // namespace
}  // namespace plait
