#include <fmt/format.h>
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

TEST(Verbs, version_says_what_the_program_is_made_of) {
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  for (const char* part : {"plait 0.1, ", "\nLibTorch 2.", "\nMPI: ", "\nbuilt for x86-64 "})
    EXPECT_NE(version.out.find(part), std::string::npos) << version.out;
}

TEST(Verbs, a_key_without_effect_is_told_once_on_standard_error) {
  const Outcome told = run({"config", "configs/tiny.toml", "moe.drop=position", "moe.group=8", "mesh.node=1"});
  EXPECT_EQ(told.code, 0);
  EXPECT_EQ(told.err, "plait: no effect here: moe.drop, moe.group: nothing is dropped (moe.capacity = \"none\")\n");
  EXPECT_EQ(run({"config", "configs/tiny.toml"}).err, "");
}

TEST(Verbs, config_and_show_refuse_what_is_over_the_limit_of_memory) {
  for (const char* verb : {"config", "show"}) {
    const Outcome refused = run({verb, "configs/tiny.toml", "memory.limit=1kB"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(refused.err.starts_with("plait: memory.limit = \"1kB\", but a rank needs ")) << refused.err;
    EXPECT_EQ(run({verb, "configs/tiny.toml", "memory.limit=1GB"}).err, "");
  }
}

TEST(Verbs, config_and_show_tell_what_this_machine_could_not_run_and_train_refuses_it) {
  const std::vector<std::string> large = {"model.hidden_size=65536", "model.intermediate_size=1048576"};
  for (const char* verb : {"config", "show", "train"}) {
    std::vector<std::string> call = {verb, "configs/tiny.toml"};
    call.insert(call.end(), large.begin(), large.end());
    const Outcome told = run(call);
    EXPECT_EQ(told.code, verb == std::string("train") ? 2 : 0);
    EXPECT_NE(told.err.find("a rank needs "), std::string::npos) << told.err;
    EXPECT_NE(told.err.find(" are left; the largest part of it is optimizer state, "), std::string::npos) << told.err;
    EXPECT_EQ(told.err.find("this machine could not run it: ") != std::string::npos, told.code == 0) << told.err;
  }
}

TEST(Verbs, a_list_that_no_memory_holds_is_refused_before_it_is_written) {
  for (const char* key : {"model.num_hidden_layers=2147483648", "schedule.chunks=2147483648"})
    for (const char* verb : {"config", "show", "train"}) {
      const Outcome refused = run({verb, "configs/tiny.toml", key});
      EXPECT_EQ(refused.code, 2);
      EXPECT_NE(refused.err.find(" as a list, and of "), std::string::npos) << refused.err;
    }
}

TEST(Verbs, number_options_refuse_what_is_beyond_their_bounds) {
  const auto refused = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments[0];
    return outcome.err;
  };
  for (const char* wrong : {"99999999999999999999", "-5", "many", "1.5", ""})
    EXPECT_EQ(refused({"generate", "x", "--tokens", wrong}),
              fmt::format("plait: --tokens {}: expected an integer of 0 to 2147483648\n", wrong));
  for (const char* wrong : {"nan", "-1", "inf", "1e9", "warm"})
    EXPECT_EQ(refused({"generate", "x", "--temperature", wrong}),
              fmt::format("plait: --temperature {}: expected a number of 0 to 1000\n", wrong));
  EXPECT_EQ(refused({"generate", "x", "--seed", "-1"}),
            "plait: --seed -1: expected an integer of 0 to 9223372036854775807\n");
  EXPECT_EQ(refused({"show", "configs/tiny.toml", "--busiest", "0.5"}),
            "plait: --busiest 0.5: expected a number of 1 to 1000000\n");
  for (const char* bench : {"step", "layer", "overlap"})
    EXPECT_EQ(refused({"bench", bench, "--repeats", "0"}),
              "plait: --repeats 0: expected an integer of 1 to 2147483648\n");
  EXPECT_EQ(refused({"bench", "overlap", "--share", "0"}),
            "plait: --share 0: expected a number above 0, at most 1000\n");
  EXPECT_EQ(refused({"bench", "collectives", "--ranks", "1"}),
            "plait: --ranks 1: expected an integer of 2 to 1048576\n");
  EXPECT_EQ(refused({"bench", "memory", "--steps", "0"}), "plait: --steps 0: expected an integer of 1 to 2147483648\n");
}

TEST(CommandLine, fills_what_it_was_given) {
  std::string path, prompt = "default";
  std::vector<std::string> overrides;
  int64_t count = 3;
  double heat = 0.5;
  bool locate = false;
  CommandLine line("verb", "does things");
  line.config(path, overrides).option("--prompt", prompt, "text").option("--count", count, "how many");
  line.option("--heat", heat, "how wild", {}).flag("--locate", locate, "say where");
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
