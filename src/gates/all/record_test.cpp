#include "gates/all/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace plait {
namespace {

TEST(Gates, are_the_folders_beside_this_one) {
  std::set<std::string> folders, listed;
  for (const auto& entry : std::filesystem::directory_iterator("src/gates"))
    if (entry.is_directory() && entry.path().filename() != "all") folders.insert(entry.path().filename());
  for (const GateSpec* gate : built_in_gates()) listed.emplace(gate->name);
  EXPECT_EQ(listed, folders);
  for (const std::string& folder : folders)
    for (const char* file : {"record.cpp", "kernel.cpp", "plain.cpp"})
      EXPECT_TRUE(std::filesystem::exists("src/gates/" + folder + "/" + file)) << folder << "/" << file;
}

TEST(Gates, are_found_by_name_and_their_routes_too) {
  EXPECT_EQ(find_gate(built_in_gates(), "switch"), &switch_gate);
  EXPECT_EQ(find_gate(built_in_gates(), "topk_softmax"), nullptr);
  EXPECT_EQ(find_route(built_in_gates(), "topk_softmax"), softmax_gate.topk_first);
  EXPECT_EQ(find_route(built_in_gates(), "noisy_topk"), nullptr);
}

// Two routes of one name would make a list that says less than it does.
TEST(Gates, have_routes_whose_names_tell_them_apart) {
  for (const GateSpec* gate : built_in_gates())
    for (const RouteSpec* route : {gate->route, gate->topk_first})
      EXPECT_TRUE(!route || find_route(built_in_gates(), route->name) == route) << gate->name;
}

TEST(Gates, read_the_keys_that_their_facts_ask_for) {
  for (const GateSpec* gate : built_in_gates()) {
    EXPECT_EQ(gate->reads("moe.order"), gate->topk_first != nullptr) << gate->name;
    EXPECT_EQ(gate->reads("moe.sample"), gate->route->samples) << gate->name;
    EXPECT_EQ(gate->reads("moe.expert_groups"), gate->route->limits_groups) << gate->name;
    EXPECT_EQ(gate->reads("moe.bias_rate"), gate->route->bias) << gate->name;
    EXPECT_EQ(gate->reads("moe.aux_coef"), gate->loss != AuxLoss::none) << gate->name;
    EXPECT_EQ(gate->reads("moe.z_coef"), gate->has_logits()) << gate->name;
    EXPECT_FALSE(gate->loss == AuxLoss::variation && !gate->noise) << gate->name;
  }
}

}  // namespace
}  // namespace plait
