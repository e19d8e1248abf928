// What a person gets wrong: one clear line on stderr and exit code 2, before anything is trained.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/apps.h"
#include "small_run.h"

namespace plait {
namespace {

using Words = std::vector<std::string>;

// What a verb says on stderr when it ends with code 2; anything else is no refusal.
std::string refused(const Words& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_verb(arguments);
  testing::internal::GetCapturedStdout();
  const std::string said = testing::internal::GetCapturedStderr();
  if (code != 2) return fmt::format("exit code {}: {}", code, said);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_TRUE(said.starts_with("plait: ")) << said;
  return said.substr(7, said.size() - 8);
}

// A folder with a config, and a text that suits it.
class Desk {
 public:
  Desk() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += static_cast<char>('a' + i * i % 26);
    spill(text_path(), text);
    Config config = small_run(run_path(), {"train.steps=2", "data.path=" + text_path()});
    spill(config_path(), to_toml(config));
  }

  std::string config_path() const { return folder_ / "run.toml"; }
  std::string text_path() const { return folder_ / "text.txt"; }
  std::string run_path() const { return folder_ / "run"; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  Words verb(const std::string& name, const Words& overrides = {}) const {
    Words all = {name, config_path()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return all;
  }
  std::string train(const Words& overrides = {}) const { return refused(verb("train", overrides)); }

 private:
  ScratchFolder folder_;
};

TEST(BadInput, an_unknown_or_useless_key_is_refused_by_every_verb_that_takes_a_config) {
  const Desk desk;
  for (const char* verb : {"train", "verify", "show", "config"}) {
    EXPECT_EQ(refused(desk.verb(verb, {"moe.num_expert=4"})),
              "override moe.num_expert=4: unknown key moe.num_expert; the nearest known key is moe.num_experts");
    EXPECT_EQ(refused(desk.verb(verb, {"moe.drop=position"})),
              "override moe.drop=position: moe.drop has no effect here: nothing is dropped (moe.capacity = \"none\"); "
              "leave it out");
  }
}

TEST(BadInput, a_layout_that_does_not_divide_names_the_two_numbers) {
  const Desk desk;
  for (const char* verb : {"train", "verify", "show"}) {
    EXPECT_EQ(refused(desk.verb(verb, {"mesh.tp=3", "mesh.esp=1"})),
              "model.num_attention_heads = 4 is not divisible by mesh.tp = 3");
    EXPECT_EQ(refused(desk.verb(verb, {"mesh.ep=3", "mesh.dp=3"})),
              "moe.num_experts = 4 is not divisible by mesh.ep = 3");
  }
}

TEST(BadInput, text_that_cannot_be_used_is_named) {
  const Desk desk;
  const std::string empty = desk / "empty.txt", ten = desk / "ten.txt", none = desk / "none.txt";
  spill(empty, "");
  spill(ten, "0123456789");
  EXPECT_EQ(desk.train({"data.path=" + none}),
            fmt::format("data.path: '{}' does not exist; expected a file, a list of files or a folder", none));
  EXPECT_EQ(desk.train({"data.path=" + empty}), fmt::format("data.path: '{}' is empty", empty));
  EXPECT_EQ(desk.train({"data.path=" + ten, "train.seq_length=16"}),
            "data.path: 9 bytes of text for training, but one sequence needs train.seq_length + 1 = 17; give more text "
            "or a shorter train.seq_length");
  EXPECT_FALSE(std::filesystem::exists(desk.run_path())) << "nothing was begun";
}

TEST(BadInput, a_byte_beyond_the_vocabulary_is_named_with_its_place) {
  const Desk desk;
  const std::string latin = desk / "latin.txt";
  spill(latin, slurp(desk.text_path()) + "caf\xc8");
  for (const char* verb : {"train", "verify"})
    EXPECT_EQ(refused(desk.verb(verb, {"model.vocab_size=128", "data.path=" + latin})),
              fmt::format("data.path: byte 2003 of '{}' is 200, but model.vocab_size = 128 has ids 0 to 127; set it to "
                          "256 for any text",
                          latin));
}

TEST(BadInput, a_folder_that_cannot_be_made_is_named) {
  const Desk desk;
  EXPECT_TRUE(desk.train({"log.dir=" + desk.text_path() + "/run"}).starts_with("log.dir: cannot make the folder '"));
  EXPECT_TRUE(desk.train({"log.dir=" + desk.text_path()}).starts_with("log.dir: cannot make the folder '"));
}

TEST(BadInput, a_damaged_checkpoint_is_refused_by_train_and_generate) {
  const Desk desk;
  run_to(small_run(desk.run_path(), {"train.steps=4"}), data::load_corpus({.paths = {desk.text_path()}}), 2);
  const std::string folder = *find_latest(desk.run_path()), model = folder + "/model.safetensors";
  const std::string whole = slurp(model);
  const auto both = [&](const std::string& part) {
    for (const Words& call :
         {desk.verb("train", {"train.steps=4"}), Words{"generate", desk.run_path(), "--prompt", "a"},
          Words{"generate", folder, "--prompt", "a"}}) {
      const std::string said = refused(call);
      EXPECT_NE(said.find(folder), std::string::npos) << said;
      EXPECT_NE(said.find(part), std::string::npos) << said;
    }
  };
  spill(model, whole.substr(0, whole.size() - 100));
  both("model.safetensors");
  spill(model, whole.substr(0, 20));
  both("model.safetensors");
  std::string flipped = whole;
  flipped[whole.size() - 1000] ^= 1;
  spill(model, flipped);
  both("model.safetensors");
  std::filesystem::remove(model);
  both("model.safetensors");
  spill(model, whole);
  spill(folder + "/state.json", "{\"step\": 2");
  both("state.json");
  std::filesystem::remove(folder + "/state.json");
  both("state.json");
}

TEST(BadInput, a_checkpoint_of_another_model_is_refused) {
  const Desk desk;
  run_to(small_run(desk.run_path(), {"train.steps=4"}), data::load_corpus({.paths = {desk.text_path()}}), 2);
  const std::string said = desk.train({"model.hidden_size=32"});
  EXPECT_NE(said.find("(model.hidden_size 16 -> 32)"), std::string::npos) << said;
  const std::string forced = desk.train({"model.hidden_size=32", "--force"});
  EXPECT_NE(forced.find("the model needs"), std::string::npos) << forced;
  EXPECT_NE(desk.train({"moe.num_experts=2", "--force"}).find("mlp."), std::string::npos);
}

TEST(BadInput, generate_says_what_is_missing) {
  const Desk desk;
  EXPECT_EQ(refused({"generate", desk / "nowhere", "--prompt", "a"}),
            fmt::format("{}: no such checkpoint; expected a folder step-N", desk / "nowhere"));
  run_to(small_run(desk.run_path(), {"train.steps=2", "model.vocab_size=128"}),
         data::load_corpus({.paths = {desk.text_path()}}));
  const std::string empty = "the prompt is empty: give at least one character to go on from";
  EXPECT_EQ(refused({"generate", desk.run_path()}), empty);
  EXPECT_EQ(refused({"generate", desk.run_path(), "--prompt", ""}), empty);
  EXPECT_EQ(refused({"generate", desk.run_path(), "--prompt", "caf\xc8"}),
            "the prompt has a byte 200, but the model knows only those below 128");
  EXPECT_NE(refused({"generate", desk.run_path(), "--prompt", "a", "--tokens", "many"}).find("tokens"),
            std::string::npos);
}

TEST(Verbs, train_and_generate_from_a_config_to_text) {
  const Desk desk;
  const auto output = [](const Words& arguments) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_verb(arguments), 0);
    return testing::internal::GetCapturedStdout();
  };
  const std::string trained = output(desk.verb("train"));
  for (const char* part : {"step 2/2 | loss ", "saved ", "validation: loss ", "done: 2 steps in ", "a sample:\n"})
    EXPECT_NE(trained.find(part), std::string::npos) << trained;
  EXPECT_NE(output(desk.verb("train")).find("has 2 steps already"), std::string::npos);
  const Words call = {"generate", desk.run_path(), "--prompt", "to be", "--tokens", "20"};
  const std::string text = output(call);
  EXPECT_EQ(text.size(), 5 + 20 + 1u);
  EXPECT_EQ(text.substr(0, 5), "to be");
  EXPECT_EQ(output(call), text) << "the same seed";
  EXPECT_NE(output({"generate", desk.run_path(), "--prompt", "to be", "--tokens", "20", "--seed", "2"}), text);
}

TEST(BadInput, a_trace_that_cannot_be_written_is_refused_before_the_first_step) {
  const Desk desk;
  EXPECT_EQ(refused(desk.verb("train", {"--trace", "/nonexistent/t.json"})),
            "cannot open '/nonexistent/t.json.tmp': No such file or directory");
  EXPECT_FALSE(std::filesystem::exists(desk.run_path()));
}

}  // namespace
}  // namespace plait
