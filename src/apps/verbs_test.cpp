#include <gtest/gtest.h>

#include <vector>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "base/errors.h"

namespace plait {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_verb(arguments);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Verbs, help_names_each) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const Verb& verb : verbs()) EXPECT_NE(help.out.find(verb.name), std::string::npos) << verb.name;
  EXPECT_EQ(run({}).code, 2);
}

TEST(Verbs, a_slip_is_one_line_and_code_2) {
  const Outcome slip = run({"confg"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_EQ(slip.err, "plait: unknown verb confg; did you mean config?\n");
  EXPECT_EQ(run({"xyzzy"}).err.substr(0, 26), "plait: unknown verb xyzzy;");
}

TEST(Verbs, each_says_what_it_takes) {
  for (const Verb& verb : verbs()) {
    const Outcome help = run({std::string(verb.name), "--help"});
    EXPECT_EQ(help.code, 0) << verb.name;
    EXPECT_NE(help.out.find("plait " + std::string(verb.name)), std::string::npos) << help.out;
    EXPECT_EQ(run({std::string(verb.name), "--no-such-option"}).code, 2) << verb.name;
  }
}

TEST(Verbs, config_lists_every_key_and_resolves_a_file) {
  const Outcome list = run({"config"});
  EXPECT_EQ(list.code, 0);
  EXPECT_NE(list.out.find("moe.num_experts_per_tok"), std::string::npos);
  for (const char* file : {"configs/tiny.toml", "configs/shakespeare.toml"}) {
    const Outcome shown = run({"config", file, "train.steps=7"});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_NE(shown.out.find("train.steps                7"), std::string::npos) << shown.out;
  }
  const Outcome wrong = run({"config", "configs/tiny.toml", "moe.num_expert=3"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err,
            "plait: override moe.num_expert=3: unknown key moe.num_expert; the nearest known key is moe.num_experts\n");
  EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1);
}

TEST(CommandLine, fills_what_it_was_given) {
  std::string path, prompt = "default";
  std::vector<std::string> overrides;
  int64_t count = 3;
  double heat = 0.5;
  bool locate = false;
  CommandLine line("verb", "does things");
  line.config(path, overrides).option("--prompt", prompt, "text").option("--count", count, "how many");
  line.option("--heat", heat, "how wild").flag("--locate", locate, "say where");
  const std::vector<std::string> arguments = {"a.toml", "--count", "5", "x.y=1", "z.w=[1, 2]", "--locate"};
  EXPECT_TRUE(line.parse(arguments));
  EXPECT_EQ(path, "a.toml");
  EXPECT_EQ(overrides, (std::vector<std::string>{"x.y=1", "z.w=[1, 2]"}));
  EXPECT_EQ(prompt, "default");
  EXPECT_EQ(count, 5);
  EXPECT_EQ(heat, 0.5);
  EXPECT_TRUE(locate);
}

TEST(CommandLine, refuses_a_word_for_a_number) {
  int64_t count = 3;
  CommandLine line("verb", "does things");
  line.option("--count", count, "how many");
  EXPECT_THROW(line.parse(std::vector<std::string>{"--count", "many"}), InputError);
}

}  // namespace
}  // namespace plait
