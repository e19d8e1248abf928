#include "passes/named_rewrites.h"

#include <gtest/gtest.h>

#include "passes/rewrite.h"
#include "passes/testing/families.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

const Schedule& ted() {
  static const Schedule s = build({.family = Family::ted, .mesh = {8, 2, 2, 4, 4}}).schedule;
  return s;
}

TEST(NamedRewrites, are_the_rewrites) {
  EXPECT_EQ(print(rewritten(ted(), "drop_duplicates=tp")), print(drop_duplicates(ted(), Axis::tp)));
  EXPECT_EQ(print(rewritten(ted(), "one_atom_at_a_time")), print(one_atom_at_a_time(ted())));
  const Schedule dtd = drop_duplicates(ted(), Axis::tp);
  EXPECT_EQ(print(rewritten(dtd, "merge_moves")), print(merge_moves(dtd)));
  EXPECT_EQ(print(rewritten(merge_moves(dtd), "hoist=tp")), print(hoist(merge_moves(dtd), Axis::tp)));
  EXPECT_EQ(rewritten(ted(), "repeat_section=0,3,2").repeat, repeat_section(ted(), {0, 3, 2}).repeat);
}

TEST(NamedRewrites, all_apply_to_a_list) {
  for (const NamedRewrite& rewrite : named_rewrites()) {
    const std::string arguments = rewrite.argument == "AXIS"                             ? "=tp"
                                  : rewrite.argument.empty()                             ? ""
                                  : rewrite.argument.find(',') == std::string_view::npos ? "=2"
                                                                                         : "=0,0,1";
    EXPECT_NO_THROW(rewritten(ted(), std::string(rewrite.name) + arguments)) << rewrite.name;
  }
}

TEST(NamedRewrites, say_what_they_take) {
  const std::map<std::string, std::string> all = {
      {"mrge_moves", "unknown rewrite mrge_moves; did you mean merge_moves?"},
      {"hoist", "rewrite hoist: read \"hoist\", expected hoist=AXIS"},
      {"hoist=pp", "rewrite hoist=pp: read axis \"pp\", expected tp, dp, esp, ep or edp"},
      {"merge_moves=tp", "rewrite merge_moves: read \"merge_moves=tp\", expected merge_moves alone"},
      {"split_messages=many", "rewrite split_messages=many: read \"many\", expected 1 whole number"},
      {"repeat_section=1,2", "rewrite repeat_section=1,2: read \"1,2\", expected 3 whole numbers, with commas between"},
      {"repeat_section=3,1,2",
       "rewrite repeat_section=3,1,2: read section \"3,1,2\" of a list of 18 steps, expected FIRST <= LAST <= 18, and "
       "at least 1"},
  };
  for (const auto& [request, says] : all) {
    try {
      rewritten(ted(), request);
      ADD_FAILURE() << request;
    } catch (const InputError& e) {
      EXPECT_EQ(e.what(), says);
    }
  }
}

}  // namespace
}  // namespace plait::oracle
