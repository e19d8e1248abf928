// Whole runs: what they write, how they stop, go on and fail, and that they learn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/json.h"
#include "corpus.h"
#include "data/batch.h"
#include "small_run.h"
#include "train/metrics.h"

namespace plait {
namespace {

std::vector<JsonObject> metrics(const std::string& dir) {
  std::vector<JsonObject> lines;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(JsonObject::parse(line, "metrics.jsonl"));
  return lines;
}

std::set<std::string> folders(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  return names;
}

TEST(Run, writes_metrics_curve_config_and_the_last_two_checkpoints) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=5", "train.save_every=1", "mesh.ep=2"});
  std::vector<int64_t> told, saved;
  const RunObserver observer{.resumed = [](const std::string&, int64_t) { FAIL() << "a new run"; },
                             .step = [&](const StepReport& r) { told.push_back(r.step); },
                             .saved = [&](const std::string&) { saved.push_back(told.back()); }};
  const RunReport report = train(config, random_corpus(), observer);
  EXPECT_EQ(told, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(saved, told);
  EXPECT_EQ(report.last_step, 5);
  EXPECT_FALSE(report.interrupted());
  const auto lines = metrics(config.log.dir);
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].integer("step"), static_cast<int64_t>(i) + 1);
    for (const char* key : {"loss", "grad_norm", "lr", "ms", "tokens_per_s"}) EXPECT_GT(lines[i].number(key), 0) << key;
    EXPECT_EQ(lines[i].has("val_loss"), i % 2 == 1 || i == 4) << "every second step and at the end";
  }
  EXPECT_EQ(*report.val_loss, lines[4].number("val_loss"));
  EXPECT_NE(slurp(config.log.dir + "/loss.svg").find("</svg>"), std::string::npos);
  EXPECT_EQ(ready_config(config.log.dir + "/config.resolved.toml"), config);
  EXPECT_EQ(folders(config.log.dir), (std::set<std::string>{"step-00000004", "step-00000005"}));
  EXPECT_EQ(Checkpoint(report.checkpoint).step(), 5);
}

TEST(Run, gives_its_last_step_over_time_where_asked_to) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=2", "mesh.ep=2", "schedule.lanes=true"});
  int told = 0;
  const RunObserver observer{.timeline = [&](const Schedule& schedule, const Timeline& timeline) {
    ++told;
    EXPECT_EQ(timeline.spans.size(), 2 * issue_order(schedule).size());
    EXPECT_GT(timeline.makespan, 0);
  }};
  train(config, random_corpus(), observer);
  EXPECT_EQ(told, 1);
}

TEST(Run, shows_the_last_step_of_all_ranks_also_where_it_tells_its_memory) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=2", "mesh.ep=2", "schedule.lanes=true"});
  std::set<std::pair<int, int>> rows;  // rank, lane
  int told = 0;
  const RunObserver observer{.timeline =
                                 [&](const Schedule& s, const Timeline& timeline) {
                                   EXPECT_EQ(timeline.spans.size(), 2 * issue_order(s).size());
                                   for (const TimeSpan& span : timeline.spans) rows.insert({span.rank, span.lane});
                                 },
                             .memory = [&](const MemoryComparison&) { ++told; }};
  train(config, random_corpus(), observer);
  EXPECT_EQ(rows, (std::set<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}})) << "computing, and messages";
  EXPECT_EQ(told, 1);
}

TEST(Run, that_is_done_does_nothing_more) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=2"});
  run_to(config, random_corpus());
  const std::string before = slurp(config.log.dir + "/metrics.jsonl");
  const RunReport again = run_to(config, random_corpus());
  EXPECT_EQ(again.first_step, 2);
  EXPECT_EQ(again.last_step, 2);
  EXPECT_EQ(slurp(config.log.dir + "/metrics.jsonl"), before);
}

class Resume : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Resume, goes_on_as_if_it_had_never_stopped) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const Config whole = small_run(folder / "whole", GetParam()), parts = small_run(folder / "parts", GetParam());
  run_to(whole, corpus);
  const RunReport first = run_to(parts, corpus, 3);
  EXPECT_TRUE(first.interrupted());
  EXPECT_EQ(first.last_step, 3);
  EXPECT_EQ(folders(parts.log.dir), std::set<std::string>{"step-00000003"});
  const RunReport second = run_to(parts, corpus);
  EXPECT_EQ(second.first_step, 3);
  for (const char* file : {"/step-00000006/model.safetensors", "/step-00000006/optimizer.safetensors"})
    EXPECT_TRUE(slurp(whole.log.dir + file) == slurp(parts.log.dir + file)) << file;
  const auto straight = metrics(whole.log.dir), resumed = metrics(parts.log.dir);
  ASSERT_EQ(resumed.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    for (const char* key : {"loss", "aux_loss", "grad_norm", "lr", "busiest", "dropped"})
      EXPECT_EQ(resumed[i].number(key), straight[i].number(key)) << key << " of step " << i + 1;
    EXPECT_EQ(resumed[i].integer("step"), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(resumed[i].has("val_loss"), i % 2 == 1);
  }
  EXPECT_EQ(resumed[5].number("val_loss"), straight[5].number("val_loss"));
}

using Overrides = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Layouts, Resume,
    testing::Values(Overrides{}, Overrides{"mesh.tp=2", "train.micro_batch_size=4"},
                    Overrides{"mesh.ep=2", "schedule.moe=ted", "moe.capacity=1.0"},
                    Overrides{"mesh.tp=2", "mesh.ep=2", "schedule.moe=dtd", "train.micro_batch_size=2"},
                    Overrides{"mesh.tp=2", "mesh.ep=2", "mesh.dp=4", "model.tie_word_embeddings=false"},
                    Overrides{"mesh.tp=1", "mesh.esp=2", "mesh.ep=2", "train.dtype=float64"},
                    Overrides{"mesh.tp=2", "mesh.ep=1", "mesh.dp=2", "optim.name=sgd"},
                    Overrides{"mesh.ep=2", "moe.gate=sigmoid", "moe.bias_rate=0.1", "moe.aux_coef=0.1"},
                    Overrides{"mesh.tp=2", "mesh.ep=2", "schedule.moe=s1", "moe.gate=noisy_topk"}));

TEST(Resume, works_at_another_layout) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const Overrides double_precision = {"train.dtype=float64"};
  const Config whole = small_run(folder / "whole", double_precision);
  run_to(whole, corpus);
  const Checkpoint straight(*find_latest(whole.log.dir));
  const Config begun = small_run(folder / "begun", {"train.dtype=float64", "mesh.tp=2", "mesh.ep=2"});
  run_to(begun, corpus, 3);
  for (const Overrides& layout :
       {Overrides{"mesh.tp=1"}, {"mesh.ep=4", "schedule.moe=ted"}, {"mesh.tp=2", "mesh.dp=4"}, {"mesh.tp=4"}}) {
    Overrides all = double_precision;
    all.insert(all.end(), layout.begin(), layout.end());
    const Config other = small_run(folder / layout[0], all);
    std::filesystem::copy(begun.log.dir, other.log.dir, std::filesystem::copy_options::recursive);
    run_to(other, corpus);
    const Checkpoint resumed(*find_latest(other.log.dir));
    EXPECT_EQ(resumed.step(), 6);
    for (const auto* list : {&resumed.model(), &resumed.optimizer()})
      for (const TensorInfo& info : *list)
        EXPECT_TRUE(resumed.read(info.name).allclose(straight.read(info.name), 1e-6, 1e-12)) << info.name;
  }
}

// What a run told beside its steps, going on from a checkpoint of `begun` as `now`.
std::vector<std::string> notes_of(const Config& now, const data::Corpus& corpus, GoOn go_on = GoOn::as_it_was) {
  std::vector<std::string> notes;
  train(now, corpus, {.note = [&](const std::string& line) { notes.push_back(line); }}, go_on);
  return notes;
}

TEST(Resume, lists_what_has_changed_and_refuses_another_model_text_or_order) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const std::string dir = folder / "run", step = dir + "/step-00000003";
  const auto with = [&](Overrides overrides) {
    overrides.push_back("mesh.threads=1");
    return small_run(dir, overrides);
  };
  run_to(with({}), corpus, 3);
  const auto refused = [&](const Config& config, const data::Corpus& text) {
    return refusal<InputError>([&] { train(config, text, {}); });
  };
  EXPECT_EQ(refused(with({"model.rope_theta=500", "train.seed=2"}), corpus),
            step +
                " was made with another model, text or order of the data (model.rope_theta 10000.0 -> 500.0, "
                "train.seed 1 -> 2): set it back, choose another log.dir, begin with its weights (train.init=" +
                step + "), or go on all the same with --force");
  for (const char* other : {"model.hidden_act=relu", "model.rms_norm_eps=0.1", "moe.num_experts_per_tok=1",
                            "moe.capacity=1.0", "data.validation=0.2", "train.batch_size=4", "train.seq_length=4"})
    EXPECT_NE(refused(with({other}), corpus).find(" was made with another model, text or order of the data ("),
              std::string::npos)
        << other;
  data::Corpus changed = corpus;
  changed.tokens[100] ^= 1;
  EXPECT_NE(refused(with({}), changed).find("(the text of data.path "), std::string::npos);
  EXPECT_EQ(notes_of(with({"optim.lr=5e-3", "mesh.ep=2", "train.steps=4"}), corpus),
            std::vector<std::string>{"changed since " + step +
                                     ": mesh.ep 1 -> 2, mesh.dp 1 -> 2, mesh.node 1 -> 2, optim.lr 0.01 -> 0.005, "
                                     "train.steps 6 -> 4, train.micro_batch_size 8 -> 4"});
  EXPECT_EQ(
      notes_of(with({"train.seed=2", "mesh.ep=2", "optim.lr=5e-3", "train.steps=5"}), corpus, GoOn::whatever_changed),
      std::vector<std::string>{"changed since " + dir + "/step-00000004: train.steps 4 -> 5, train.seed 1 -> 2"});
}

TEST(Run, begins_with_weights_of_another_one) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const Overrides sigmoid = {"moe.gate=sigmoid", "moe.bias_rate=0.1", "mesh.threads=1"};
  const Config first = small_run(folder / "first", sigmoid);
  run_to(first, corpus);
  const std::string from = *find_latest(first.log.dir);
  for (const std::string& init : {first.log.dir, from, from + "/model.safetensors"}) {
    Overrides keys = sigmoid;
    keys.insert(keys.end(), {"mesh.ep=2", "train.steps=1", "optim.lr=1e-30", "optim.min_lr=0", "moe.bias_rate=0",
                             "train.init=" + init});
    std::filesystem::remove_all(folder / "second");
    const Config second = small_run(folder / "second", keys);
    EXPECT_EQ(notes_of(second, corpus),
              (std::vector<std::string>{"begins with the weights of " + from,
                                        "which were trained as another model: moe.bias_rate 0.1 -> 0.0"}));
    const Checkpoint given(from), taken(*find_latest(second.log.dir));
    EXPECT_EQ(taken.step(), 1);
    for (const TensorInfo& info : given.model())
      EXPECT_TRUE(taken.read(info.name).allclose(given.read(info.name), 1e-6, 1e-20)) << info.name;
  }
}

TEST(Run, writes_a_line_of_metrics_every_so_many_steps) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"train.steps=11", "log.every=4", "train.eval_every=5"});
  run_to(config, random_corpus());
  std::vector<int64_t> steps;
  for (const JsonObject& line : metrics(config.log.dir)) steps.push_back(line.integer("step"));
  EXPECT_EQ(steps, (std::vector<int64_t>{4, 5, 8, 10, 11})) << "and where it evaluates, and the last";
}

TEST(Run, never_saves_parameters_that_are_not_finite) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  // The row of a byte that the text has not: no loss sees it.
  const Config config = small_run(folder / "run", {"model.tie_word_embeddings=false", "optim.weight_decay=0"});
  run_to(config, corpus, 3);
  const std::set<uint8_t> seen(corpus.tokens.begin(), corpus.tokens.end());
  int64_t unseen = 0;
  while (seen.contains(static_cast<uint8_t>(unseen))) ++unseen;
  ASSERT_LT(unseen, 256);
  rewrite_checkpoint(config.log.dir, [&](const std::string& name, const at::Tensor& tensor) {
    if (name == "model.embed_tokens.weight") tensor[unseen].fill_(INFINITY);
  });
  const std::string message = refusal<wire::RankFailure>([&] { run_to(config, corpus); });
  EXPECT_NE(message.find("'model.embed_tokens.weight' holds a value that is not finite, and is not saved"),
            std::string::npos)
      << message;
  EXPECT_EQ(Checkpoint(*find_latest(config.log.dir)).step(), 3);
}

TEST(Run, finishes_and_saves_where_whole_ranks_have_no_token_for_their_experts) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.ep=4", "moe.gate=switch", "moe.num_experts_per_tok=1",
                                                   "moe.aux_coef=0", "optim.lr=1e-6", "optim.min_lr=0"});
  run_to(config, random_corpus(), 3);
  // A gate without weights is undecided, and ties go to expert 0.
  rewrite_checkpoint(config.log.dir, [](const std::string& name, const at::Tensor& tensor) {
    if (name.find("mlp.gate.weight") != std::string::npos) tensor.zero_();
  });
  const RunReport report = run_to(config, random_corpus());
  EXPECT_EQ(report.last_step, 6);
  const JsonObject line = metrics(config.log.dir)[3];
  EXPECT_EQ(line.number("busiest"), 4);
  const JsonObject& layer = line.objects("layers").at(0);
  EXPECT_EQ(layer.integer("layer"), 1);
  EXPECT_EQ(layer.numbers("share"), (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(layer.number("busiest"), 4);
  EXPECT_EQ(layer.number("dropped"), 0);
  EXPECT_EQ(layer.integer("dead"), 3);
  const Checkpoint checkpoint(report.checkpoint);
  for (const TensorInfo& info : checkpoint.model())
    EXPECT_TRUE(checkpoint.read(info.name).isfinite().all().item<bool>());
}

// Every rank meets it at the same step of the list; the first one is told of.
TEST(Failure, of_a_gate_names_rank_layer_and_training_step) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.tp=2", "mesh.ep=2"});
  run_to(config, random_corpus(), 3);
  rewrite_checkpoint(config.log.dir, [](const std::string& name, const at::Tensor& tensor) {
    if (name == "model.layers.0.self_attn.v_proj.weight") tensor[0][0][0] = NAN;
  });
  const std::string message = refusal<wire::RankFailure>([&] { run_to(config, random_corpus()); });
  EXPECT_TRUE(message.starts_with("rank ")) << message;
  EXPECT_NE(message.find("(tp "), std::string::npos) << message;
  EXPECT_NE(message.find("training step 4: %l1.route: the gate's logit of token 0"), std::string::npos) << message;
  EXPECT_NE(message.find("the last checkpoint is as it was"), std::string::npos) << message;
  EXPECT_NE(message.find("/config.resolved.toml --replay`"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

// A byte that only the second data rank reads has no embedding: its peer waits in vain and is not blamed.
TEST(Failure, of_one_rank_ends_all_with_its_name) {
  const ScratchFolder folder;
  const data::Corpus corpus = random_corpus();
  const Config config =
      small_run(folder / "run", {"mesh.ep=2", "train.batch_size=2", "model.tie_word_embeddings=false"});
  run_to(config, corpus, 3);
  const data::BatchPlan plan{.seed = 1, .batch_size = 2, .seq_length = 8, .dp_size = 2};
  const auto seen = [&](int dp_rank) {
    const at::Tensor ids = data::make_batch(corpus, plan, {.step = 3, .dp_rank = dp_rank}).ids_T;
    return std::set<int64_t>(ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel());
  };
  int64_t only = -1;
  for (int64_t id : seen(1))
    if (!seen(0).contains(id)) only = id;
  ASSERT_GE(only, 0);
  rewrite_checkpoint(config.log.dir, [&](const std::string& name, const at::Tensor& tensor) {
    if (name == "model.embed_tokens.weight") tensor[only].fill_(INFINITY);
  });
  const std::string message = refusal<wire::RankFailure>([&] { run_to(config, corpus); });
  EXPECT_TRUE(message.starts_with("rank 1 (tp 0, dp 1; esp 0, ep 1, edp 0): training step 4: %l1.route: ")) << message;
}

TEST(Failure, of_a_loss_that_is_not_finite_ends_the_run_and_saves_nothing) {
  const ScratchFolder folder;
  const Config config = small_run(folder / "run", {"mesh.tp=2", "mesh.dp=2", "moe.num_experts=0", "optim.lr=1e30"});
  const std::string message = refusal<wire::RankFailure>([&] { run_to(config, random_corpus()); });
  EXPECT_NE(message.find("training step 2: the gradient norm is nan"), std::string::npos) << message;
  EXPECT_NE(message.find("there is no checkpoint yet"), std::string::npos) << message;
  EXPECT_NE(message.find("`plait verify " + config.log.dir + "/config.resolved.toml --replay`"), std::string::npos)
      << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_EQ(metrics(config.log.dir).size(), 1u);
  EXPECT_FALSE(find_latest(config.log.dir));
}

TEST(Run, learns_a_text_that_repeats_itself) {
  const ScratchFolder folder;
  data::Corpus corpus;
  for (int i = 0; i < 100; ++i)
    for (char c : std::string("to be or not to be, that is the question. ")) corpus.tokens.push_back(c);
  corpus.num_training = static_cast<int64_t>(corpus.tokens.size()) * 9 / 10;
  const Config config = small_run(folder / "run", {"mesh.tp=2", "mesh.ep=2", "train.steps=200", "train.seq_length=16",
                                                   "optim.lr=1e-2", "train.eval_every=200", "model.hidden_size=32"});
  const RunReport report = run_to(config, corpus);
  EXPECT_GT(metrics(config.log.dir)[0].number("loss"), 5);
  EXPECT_LT(*report.val_loss, 0.6);
}

}  // namespace
}  // namespace plait
