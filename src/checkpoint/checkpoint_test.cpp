#include "checkpoint/checkpoint.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

const std::vector<TensorInfo> kModel = {{"embed", {4, 3}, at::kFloat}, {"layers.0.gate", {3, 2}, at::kDouble}};
const std::vector<TensorInfo> kOptimizer = {{"embed.m", {4, 3}, at::kFloat},
                                            {"embed.v", {4, 3}, at::kFloat},
                                            {"layers.0.gate.m", {3, 2}, at::kDouble},
                                            {"layers.0.gate.v", {3, 2}, at::kDouble}};

// Every tensor is full of a number that tells the step and the name.
at::Tensor tensor_at(int64_t step, const std::string& name) {
  for (const auto* infos : {&kModel, &kOptimizer}) {
    for (const auto& info : *infos) {
      if (info.name == name) return at::full(info.shape, step * 1000 + static_cast<int64_t>(name.size()), info.dtype);
    }
  }
  throw std::logic_error("unknown " + name);
}

CheckpointContent content_at(int64_t step) {
  return {.state = {.step = step,
                    .seed = 42,
                    .config = "[model]\nname = \"a \\ b\"\n",
                    .more = JsonLine().add("tokens", step * 512).add("best_val_loss", 1.5)},
          .model = kModel,
          .optimizer = kOptimizer,
          .get = [step](const std::string& name) { return tensor_at(step, name); }};
}

void save(const ScratchFolder& folder, int64_t step, int keep = 0) {
  save_checkpoint(folder.str(), content_at(step), keep);
}

void expect_loads(const std::string& checkpoint_folder, int64_t step) {
  const Checkpoint checkpoint(checkpoint_folder);
  EXPECT_EQ(checkpoint.step(), step);
  checkpoint.require(kModel, kOptimizer);
  for (const auto* infos : {&kModel, &kOptimizer}) {
    for (const auto& info : *infos) EXPECT_TRUE(at::equal(checkpoint.read(info.name), tensor_at(step, info.name)));
  }
}

std::vector<std::string> names_in(const ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.str())) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, loads_what_was_saved) {
  const ScratchFolder folder;
  EXPECT_EQ(find_latest(folder.str()), std::nullopt);
  EXPECT_EQ(find_latest(folder / "nothing"), std::nullopt);
  save(folder, 123);
  EXPECT_EQ(find_latest(folder.str()), folder / "step-00000123");
  expect_loads(folder / "step-00000123", 123);
  const Checkpoint checkpoint(folder / "step-00000123");
  EXPECT_EQ(checkpoint.seed(), 42);
  EXPECT_EQ(checkpoint.config(), "[model]\nname = \"a \\ b\"\n");
  EXPECT_EQ(checkpoint.json().integer("tokens"), 123 * 512);
  EXPECT_EQ(checkpoint.json().number("best_val_loss"), 1.5);
}

TEST(Checkpoint, of_a_later_step_becomes_the_latest_and_old_ones_go) {
  const ScratchFolder folder;
  for (const int64_t step : {10, 20, 30, 40}) save(folder, step, 2);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000030", "step-00000040"}));
  EXPECT_EQ(find_latest(folder.str()), folder / "step-00000040");
  expect_loads(folder / "step-00000030", 30);
}

TEST(Checkpoint, of_the_same_step_replaces_the_older_one) {
  const ScratchFolder folder;
  save(folder, 5);
  spill(folder / "step-00000005/model.safetensors", "damaged");
  save(folder, 5);
  expect_loads(folder / "step-00000005", 5);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000005"}));
}

TEST(Checkpoint, resumes_from_where_the_pointer_says_and_never_removes_it) {
  const ScratchFolder folder;
  for (const int64_t step : {10, 20, 30}) save(folder, step);
  spill(folder / "latest", "step-00000010\n");  // a person goes back
  EXPECT_EQ(find_latest(folder.str()), folder / "step-00000010");
  save(folder, 15, 1);
  EXPECT_EQ(find_latest(folder.str()), folder / "step-00000015");
  expect_loads(folder / "step-00000015", 15);
}

TEST(Checkpoint, survives_a_save_that_fails_at_any_tensor) {
  for (size_t stop = 0; stop < kModel.size() + kOptimizer.size(); ++stop) {
    const ScratchFolder folder;
    save(folder, 1);
    auto content = content_at(2);
    size_t written = 0;
    content.get = [&](const std::string& name) {
      if (written++ == stop) throw CommError("killed");
      return tensor_at(2, name);
    };
    EXPECT_THROW(save_checkpoint(folder.str(), content, 0), CommError);
    EXPECT_EQ(find_latest(folder.str()), folder / "step-00000001");
    expect_loads(*find_latest(folder.str()), 1);
    save(folder, 2);
    expect_loads(*find_latest(folder.str()), 2);
    EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000001", "step-00000002"}));
  }
}

// The states a killed process can leave, as functions that make them from a folder with complete steps 1 and 2.
void hide_step_2(const ScratchFolder& folder) {
  fs::rename(folder / "step-00000002", folder / ".step-00000002.tmp");
  spill(folder / "latest", "step-00000001\n");
}

TEST(Checkpoint, killed_at_any_write_point_leaves_the_last_complete_one) {
  using Damage = std::function<void(const ScratchFolder&)>;
  const std::string aside = ".step-00000002.tmp/";
  const std::vector<Damage> before_rename = {
      [](const auto&) {},
      [&](const auto& folder) { fs::remove(folder / (aside + "state.json")); },
      [&](const auto& folder) { fs::rename(folder / (aside + "state.json"), folder / (aside + "state.json.tmp")); },
      [&](const auto& folder) { fs::resize_file(folder / (aside + "model.safetensors"), 20); },
      [&](const auto& folder) { fs::remove(folder / (aside + "optimizer.safetensors")); },
      [&](const auto& folder) { fs::remove_all(folder / aside), fs::create_directory(folder / aside); }};
  for (const auto& damage : before_rename) {
    const ScratchFolder folder;
    save(folder, 1), save(folder, 2);
    hide_step_2(folder);
    damage(folder);
    EXPECT_EQ(find_latest(folder.str()), folder / "step-00000001");
    expect_loads(*find_latest(folder.str()), 1);
    save(folder, 2);
    expect_loads(*find_latest(folder.str()), 2);
    EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000001", "step-00000002"}));
  }
}

TEST(Checkpoint, killed_between_folder_and_pointer_still_loads) {
  const ScratchFolder folder;
  save(folder, 1), save(folder, 2);
  spill(folder / "latest", "step-00000001\n");  // renamed, not yet pointed at
  expect_loads(*find_latest(folder.str()), 1);
  spill(folder / "latest.tmp", "step-0");  // the pointer half written
  expect_loads(*find_latest(folder.str()), 1);
  fs::remove(folder / "latest");  // the first pointer never came to be
  expect_loads(*find_latest(folder.str()), 2);
}

// The one that is pointed at was moved away to be replaced, and its successor never came.
TEST(Checkpoint, killed_while_it_is_replaced_stands_under_its_name_again) {
  const ScratchFolder folder;
  save(folder, 1), save(folder, 2);
  fs::rename(folder / "step-00000002", folder / ".step-00000002.old");
  EXPECT_EQ(remove_leftovers(folder.str()), std::vector<std::string>{".step-00000002.old (is step-00000002 again)"});
  expect_loads(*find_latest(folder.str()), 2);
  EXPECT_EQ(remove_leftovers(folder.str()), std::vector<std::string>{});
}

TEST(Checkpoint, that_is_pointed_at_and_gone_is_an_error_that_lists_what_there_is) {
  const ScratchFolder folder;
  const auto says = [&] { return refusal<InputError>([&] { find_latest(folder.str()); }); };
  save(folder, 1), save(folder, 2);
  spill(folder / "latest", "step-00000007\n");
  const std::string todo = ": write the name of one into it, or remove it to go on from the newest";
  EXPECT_EQ(says(),
            folder / "latest names 'step-00000007', which is not there; step-00000001, step-00000002 are there" + todo);
  spill(folder / "latest", "");
  EXPECT_EQ(says(), folder / "latest names '', which is not there; step-00000001, step-00000002 are there" + todo);
  fs::remove_all(folder / "step-00000001");
  EXPECT_EQ(says(), folder / "latest names '', which is not there; step-00000002 is there" + todo);
  fs::remove_all(folder / "step-00000002");
  EXPECT_EQ(says(), folder / "latest names '', which is not there; no checkpoint is there" + todo);
}

TEST(Checkpoint, of_weights_alone_loads_into_a_model_and_into_no_run) {
  const ScratchFolder folder;
  save(folder, 1);
  const std::string step = folder / "step-00000001";
  fs::remove(step + "/optimizer.safetensors");
  const Checkpoint weights(step);
  weights.require_model(kModel);
  EXPECT_TRUE(weights.optimizer().empty());
  EXPECT_TRUE(at::equal(weights.read("embed"), tensor_at(1, "embed")));
  EXPECT_EQ(refusal<InputError>([&] { weights.require(kModel, kOptimizer); }),
            step +
                ": holds no optimizer.safetensors: a run cannot go on from weights alone; begin one with them by "
                "train.init=" +
                step + " and another log.dir");
}

// Where older versions kept a tensor that is the model's, but no parameter.
TEST(Checkpoint, gives_a_tensor_of_the_model_from_the_optimizers_file_too) {
  const ScratchFolder folder;
  save(folder, 1);
  const Checkpoint checkpoint(folder / "step-00000001");
  auto model = kModel, optimizer = kOptimizer;
  model.push_back(optimizer.back());
  optimizer.pop_back();
  checkpoint.require(model, optimizer);
  checkpoint.require_model(model);
}

TEST(Checkpoint, that_does_not_fit_the_disk_is_refused_before_anything_is_written) {
  const ScratchFolder folder;
  save(folder, 1);
  auto content = content_at(2);
  content.model.push_back({"vast", {int64_t{1} << 50}, at::kDouble});
  const std::string says = refusal<InputError>([&] { save_checkpoint(folder.str(), content, 1); });
  EXPECT_TRUE(says.starts_with("cannot save a checkpoint in '" + folder.str() + "': it needs 8.00 PiB, and ")) << says;
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000001"}));
}

TEST(Checkpoint, that_fails_leaves_nothing_half_written) {
  const ScratchFolder folder;
  save(folder, 1);
  auto content = content_at(2);
  content.get = [](const std::string&) -> at::Tensor { throw CommError("a rank has ended"); };
  EXPECT_THROW(save_checkpoint(folder.str(), content, 1), CommError);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "step-00000001"}));
}

TEST(Checkpoint, tells_how_much_is_written) {
  const ScratchFolder folder;
  auto content = content_at(2);
  int64_t told = 0, whole = 0;
  content.written = [&](int64_t bytes) { told += bytes; };
  for (const auto* infos : {&kModel, &kOptimizer})
    for (const auto& info : *infos) whole += info.bytes();
  save_checkpoint(folder.str(), content, 1);
  EXPECT_EQ(told, whole);
}

// A step's number that reads as another one, a seed, a letter of the config: JSON as good as before.
TEST(Checkpoint, notices_every_damaged_byte_of_its_state) {
  const ScratchFolder folder;
  save(folder, 1);
  const std::string step = folder / "step-00000001", path = step + "/state.json", whole = slurp(path);
  for (size_t i = 0; i + 1 < whole.size(); ++i)
    for (const int bit : {1, 2, 4, 64}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      spill(path, damaged);
      EXPECT_NE(refusal<InputError>([&] { Checkpoint checkpoint(step); }), "accepted") << i << ": " << damaged;
    }
}

TEST(Checkpoint, says_in_one_line_what_is_damaged_or_missing) {
  const ScratchFolder folder;
  save(folder, 1);
  const auto step = folder / "step-00000001";
  const auto says = [&] {
    return refusal<InputError>([&] {
      const Checkpoint checkpoint(step);
      for (const auto& info : checkpoint.model()) checkpoint.read(info.name);
    });
  };
  ASSERT_EQ(says(), "accepted");
  const auto model = slurp(step + "/model.safetensors");
  spill(step + "/model.safetensors", model.substr(0, model.size() - 4));
  EXPECT_EQ(says(), step + "/model.safetensors: holds 92 bytes of data; expected 96");
  auto flipped = model;
  flipped[model.size() - 1] ^= 1;
  spill(step + "/model.safetensors", flipped);
  EXPECT_EQ(says(),
            step + "/model.safetensors: the data of tensor 'layers.0.gate' is damaged: it differs from its checksum");
  spill(step + "/model.safetensors", model);
  fs::remove(step + "/model.safetensors");
  EXPECT_EQ(says(), step + "/model.safetensors: No such file or directory; expected a safetensors file");
  save(folder, 1);
  spill(step + "/state.json", "{\"format\": 1, \"step\": 1, \"config\": \"\"}");
  EXPECT_EQ(says(), step + "/state.json: \"seed\" is missing");
  spill(step + "/state.json", "{\"format\": 3, \"step\": 1, \"seed\": 1, \"config\": \"\"}");
  EXPECT_EQ(says(), step + "/state.json: format 3; this version reads formats 1 to 2");
  spill(step + "/state.json", "{\"format\": 2, \"step\": 1, \"seed\": 1, \"config\": \"\"}");
  EXPECT_EQ(says(), step + "/state.json: is damaged: it differs from its checksum");
  fs::remove(step + "/state.json");
  EXPECT_EQ(says(), "cannot read '" + step + "/state.json': No such file or directory");
  fs::remove_all(step);
  EXPECT_EQ(says(), step + ": no such checkpoint; expected a folder step-N");
}

// What loading says of a run's folder: each tensor is read.
std::string loading_says(const ScratchFolder& folder) {
  return refusal<InputError>([&] {
    const Checkpoint checkpoint(*find_latest(folder.str()));
    checkpoint.require(kModel, kOptimizer);
    for (const auto* infos : {&kModel, &kOptimizer})
      for (const auto& info : *infos) checkpoint.read(info.name);
  });
}

constexpr const char* kFiles[] = {"step-00000001/model.safetensors", "step-00000001/optimizer.safetensors",
                                  "step-00000001/state.json", "latest"};

TEST(Checkpoint, cut_at_every_sixteenth_of_any_file_names_the_file) {
  const ScratchFolder folder;
  save(folder, 1);
  for (const char* name : kFiles) {
    const std::string path = folder / name, whole = slurp(path);
    for (size_t part = 0; part < 16; ++part) {
      spill(path, whole.substr(0, (whole.size() - 1) * part / 16));  // its last byte may be a newline that says nothing
      const std::string says = loading_says(folder);
      EXPECT_NE(says.find(path), std::string::npos) << part << "/16 of " << name << ": " << says;
      EXPECT_EQ(says.find('\n'), std::string::npos) << says;
    }
    spill(path, whole);
  }
  EXPECT_EQ(loading_says(folder), "accepted");
}

TEST(Checkpoint, with_any_bit_of_any_file_turned_names_the_file) {
  const ScratchFolder folder;
  save(folder, 1);
  for (const char* name : kFiles) {
    const std::string path = folder / name, whole = slurp(path);
    for (size_t i = 0; i + 1 < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
      spill(path, damaged);
      EXPECT_NE(loading_says(folder).find(path), std::string::npos)
          << name << ", byte " << i << ": " << loading_says(folder);
    }
    spill(path, whole);
  }
}

TEST(Checkpoint, must_hold_exactly_the_models_tensors) {
  const ScratchFolder folder;
  save(folder, 1);
  const Checkpoint checkpoint(folder / "step-00000001");
  const auto file = folder / "step-00000001/model.safetensors";
  const auto says = [&](const std::vector<TensorInfo>& expected) {
    return refusal<InputError>([&] { checkpoint.require(expected, kOptimizer); });
  };
  auto more = kModel, fewer = kModel, wider = kModel;
  more.push_back({"head", {2}, at::kFloat});
  fewer.pop_back();
  wider[0].shape = {4, 5};
  EXPECT_EQ(says(more), file + ": holds no tensor 'head', which the model needs");
  EXPECT_EQ(says(fewer), file + ": tensor 'layers.0.gate' is unknown to the model");
  EXPECT_EQ(says(wider), file + ": tensor 'embed' is Float [4, 3]; the model needs Float [4, 5]");
  more = kOptimizer;
  more.push_back({"head.m", {2}, at::kFloat});
  EXPECT_EQ(refusal<InputError>([&] { checkpoint.require(kModel, more); }),
            folder / "step-00000001/optimizer.safetensors: holds no tensor 'head.m', which the model needs");
}

TEST(Checkpoint, refuses_a_folder_it_cannot_write) {
  const ScratchFolder folder;
  spill(folder / "file", "not a folder");
  const auto message = refusal<InputError>([&] { save_checkpoint(folder / "file/run", content_at(1), 0); });
  EXPECT_NE(message.find("cannot save a checkpoint in '" + (folder / "file/run") + "'"), std::string::npos) << message;
}

}  // namespace
}  // namespace plait
