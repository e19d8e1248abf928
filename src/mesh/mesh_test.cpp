#include "mesh/mesh.h"

#include <gmock/gmock.h>

#include <map>

#include "base/errors.h"

namespace plait {
namespace {

using Groups = std::vector<std::vector<int>>;

Groups groups(const Mesh& mesh, Axis axis) {
  std::map<int, std::vector<int>> by_first;
  for (int r = 0; r < mesh.ranks(); ++r) {
    auto members = mesh.group(r, mesh.axis(axis));
    by_first[members.front()] = members;
  }
  Groups all;
  for (auto& [first, members] : by_first) all.push_back(members);
  return all;
}

TEST(Mesh, is_cut_where_a_node_ends) {
  const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 4, .node = 4});
  ASSERT_EQ(mesh.axis(Axis::ep), (std::vector<Atom>{2, 1}));
  EXPECT_EQ(mesh.name(2), "dp.ep");
  EXPECT_EQ(mesh.name(1), "dp.ep.node");
  EXPECT_EQ(mesh.name(0), "tp.esp");
  EXPECT_TRUE(mesh.crosses_nodes(2));
  EXPECT_FALSE(mesh.crosses_nodes(1));
  EXPECT_EQ(mesh.group(1, std::vector<Atom>{2}), (std::vector<int>{1, 5}));
  const Mesh uncut({.ranks = 8, .tp = 2, .esp = 2, .ep = 2, .node = 4});
  EXPECT_EQ(uncut.num_atoms(), 3);
  EXPECT_EQ(uncut.name(1), "dp.ep");
  EXPECT_TRUE(uncut.crosses_nodes(2));
  EXPECT_THROW(Mesh({.ranks = 12, .tp = 2, .esp = 2, .ep = 2, .node = 6}), InputError);
}

TEST(Mesh, groups_are_those_of_the_two_grids) {
  const Mesh m4({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  EXPECT_EQ(groups(m4, Axis::tp), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups(m4, Axis::dp), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups(m4, Axis::ep), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups(m4, Axis::edp), (Groups{{0}, {1}, {2}, {3}}));
  const Mesh m8({.ranks = 8, .tp = 2, .esp = 2, .ep = 2});
  EXPECT_EQ(groups(m8, Axis::dp), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups(m8, Axis::ep), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(m8, Axis::edp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  const Mesh m84({.ranks = 8, .tp = 4, .esp = 4, .ep = 2});
  EXPECT_EQ(groups(m84, Axis::dp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(m84, Axis::tp), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  const Mesh m16({.ranks = 16, .tp = 4, .esp = 4, .ep = 2});
  EXPECT_EQ(groups(m16, Axis::ep), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
}

TEST(Mesh, tp_and_esp_may_differ) {
  const Mesh narrow({.ranks = 8, .tp = 2, .esp = 4, .ep = 2});
  EXPECT_EQ(groups(narrow, Axis::esp), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups(narrow, Axis::ep), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  const Mesh wide({.ranks = 8, .tp = 4, .esp = 2, .ep = 4});
  EXPECT_EQ(groups(wide, Axis::ep), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(wide.name(0), "tp.esp");
  EXPECT_EQ(wide.name(1), "tp.ep");
  EXPECT_EQ(wide.name(2), "dp.ep");
}

TEST(Mesh, grids_without_a_common_refinement_are_refused_by_name) {
  try {
    Mesh({.ranks = 12, .tp = 4, .esp = 2, .ep = 3});
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("4 does not divide 6"));
  }
  EXPECT_THROW(Mesh({.ranks = 2, .tp = 4}), InputError);
  EXPECT_THROW(Mesh({.ranks = 0}), InputError);
}

TEST(Mesh, one_rank_has_no_atoms) {
  const Mesh one;
  EXPECT_EQ(one.num_atoms(), 0);
  EXPECT_EQ(one.group(0, one.atoms()), std::vector<int>{0});
}

TEST(Mesh, coordinates_name_the_rank_in_both_grids) {
  const Mesh mesh({.ranks = 8, .tp = 2, .esp = 2, .ep = 2});
  EXPECT_EQ(mesh.coordinates(5), "rank 5 (tp 1, dp 2; esp 1, ep 0, edp 1)");
  EXPECT_EQ(mesh.extent(Axis::dp), 4);
}

}  // namespace
}  // namespace plait
