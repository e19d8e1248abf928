// `plait schedule`: what it prints is a schedule again, its exit codes, and what it says of a slip.
#include <gtest/gtest.h>

#include "apps/apps.h"
#include "base/testing/scratch_folder.h"
#include "passes/named_rewrites.h"
#include "schedule/text.h"

namespace plait {
namespace {

constexpr const char* kList = R"(plait schedule 1
mesh ranks=2 tp=1 esp=1 ep=2
leaf data %x : side [T=8/dp.ep, D=4]
leaf parameter %w : real [D=4, F=6]
%e = enter(%w) dp.ep:I>R
%h = einsum(%x, %e) out=T,F
%p = einsum(%h, %h) out=-
%loss = leave(%p) dp.ep:P>I
outputs %loss
)";

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"schedule"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_verb(all);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

class ScheduleVerb : public testing::Test {
 protected:
  ScheduleVerb() : list(folder / "own.txt") { spill(list, kList); }
  ScratchFolder folder;
  const std::string list;
};

TEST_F(ScheduleVerb, checks_and_prints_a_schedule) {
  const Outcome checked = run({"check", list});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_EQ(print(parse_schedule(checked.out)), print(parse_schedule(kList)));
  EXPECT_NE(checked.out.find("# it types: 2 leaves, 4 steps, 2 of them moves, which send 1 message; 1 output\n"),
            std::string::npos);
}

TEST_F(ScheduleVerb, differentiates_once) {
  const Outcome whole = run({"differentiate", list, "--lower"});
  EXPECT_NE(whole.out.find(" of %w\n"), std::string::npos) << whole.out;
  spill(folder / "whole.txt", whole.out);
  EXPECT_EQ(run({"run", folder / "whole.txt"}).code, 0);
  EXPECT_EQ(run({"differentiate", folder / "whole.txt"}).err,
            "plait: " + folder / "whole.txt" + ": has a backward pass already: %seed is a cotangent\n");
  EXPECT_EQ(run({"differentiate", list, "--loss", "lss"}).err,
            "plait: " + list + ": loss %lss: no such value; did you mean %loss?\n");
}

TEST_F(ScheduleVerb, rewrites_and_says_what_found_nothing) {
  const Outcome rewritten = run({"rewrite", list, "merge_moves", "drop_unused"});
  EXPECT_EQ(rewritten.code, 0) << rewritten.err;
  EXPECT_NE(rewritten.out.find("# merge_moves found nothing to do\n"), std::string::npos);
  EXPECT_EQ(run({"rewrite", list, "hoist"}).err,
            "plait: " + list + ": rewrite hoist: read \"hoist\", expected hoist=AXIS\n");
  const std::string help = run({"rewrite", "--help"}).out;
  for (const NamedRewrite& r : named_rewrites()) EXPECT_NE(help.find(r.name), std::string::npos) << r.name;
}

TEST_F(ScheduleVerb, prices_draws_and_runs) {
  const Outcome cost = run({"cost", list, "--lanes"});
  EXPECT_NE(cost.out.find("the list as it runs"), std::string::npos) << cost.out << cost.err;
  EXPECT_EQ(run({"draw", list, "--svg", folder / "a.svg", "--trace", folder / "a.json"}).code, 0);
  EXPECT_NE(slurp(folder / "a.svg").find("<svg"), std::string::npos);
  EXPECT_EQ(run({"draw", list}).code, 2);
  const Outcome ran = run({"run", list, "--seed", "7", "--lanes"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("gradient of %w"), std::string::npos);
  EXPECT_NE(ran.out.find("\nagrees: largest "), std::string::npos);
}

TEST_F(ScheduleVerb, ends_with_1_where_ranks_differ_from_one) {
  const std::string jittered = folder / "jittered.txt";
  spill(jittered,
        "plait schedule 1\nmesh ranks=2 tp=1 esp=1 ep=2\nleaf data %x : side [T=8/dp.ep, D=4]\n"
        "leaf scalar %key : int []\n%a, %b = split(%x) dim=T id=s parts=2\n"
        "%i = jitter(%a, %key) amount=0.5 stream=0\n%j = jitter(%b, %key) amount=0.5 stream=0\n"
        "%y = concat(%i, %j) dim=T id=s\n%all = join(%y) dp.ep:S(T)>I\noutputs %all\n");
  const Outcome ran = run({"run", jittered});
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_NE(ran.out.find("\nDIFFERS: largest "), std::string::npos) << ran.out;
}

TEST_F(ScheduleVerb, says_a_slip_in_one_line_and_ends_with_2) {
  spill(folder / "slip.txt", std::string(kList) + "%y = scale(%loss) facter=2\n");
  const Outcome slip = run({"check", folder / "slip.txt"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_EQ(slip.err, "plait: " + folder / "slip.txt" +
                          ":10: read \"%y = scale(%loss) facter\" (column 1), expected the end of the file, or repeat: "
                          "outputs end a list\n");
  EXPECT_EQ(run({"chekc", list}).err, "plait: schedule chekc: did you mean check?\n");
  EXPECT_EQ(run({"check", folder / "none.txt"}).code, 2);
  EXPECT_EQ(run({"check", folder.str()}).err,
            "plait: " + folder.str() + ": is a folder, expected a schedule as text\n");
  EXPECT_EQ(run({}).code, 2);
}

}  // namespace
}  // namespace plait
