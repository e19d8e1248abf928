// Folders of transformers in and out: what comes back is what went in, and every fault is one line that leaves nothing.
#include "hub/transfer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "base/errors.h"
#include "base/files.h"
#include "base/testing/scratch_folder.h"

namespace plait::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMixtral =
    R"({"model_type": "mixtral", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
"num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
"num_local_experts": 3, "num_experts_per_tok": 2, "torch_dtype": "bfloat16", "mystery": [1, 2]})";
constexpr std::string_view kLlama =
    R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2,
"num_attention_heads": 2, "rms_norm_eps": 1e-05, "tie_word_embeddings": true})";

// With one key changed.
std::string with(std::string_view json, std::string_view key, const std::string& value) {
  auto pairs = ConfigJson("config.json", json);
  std::string text(json.substr(0, json.size() - 1));
  return fmt::format("{}, \"{}\": {}}}", text, key, value);
}

// A folder with random weights of this config.json.
struct Folder {
  ScratchFolder scratch;
  std::string path = scratch / "theirs";
  std::vector<TensorInfo> tensors;

  explicit Folder(std::string_view config, at::ScalarType dtype = at::kBFloat16, int64_t shard_bytes = 0) {
    fs::create_directories(path);
    spill(path + "/config.json", std::string(config));
    spill(path + "/tokenizer.json", "{\"of\": \"a tokenizer\"}\n");
    ConfigJson json = ConfigJson::of(path);
    const PublishedFamily& family = hub::family_of(json);
    const Config ours = ready_config("", settings_of(family, json).overrides);
    for (const TensorInfo& tensor : tensors_of(ours))
      for (const Published& piece : published_in(family, tensor.name, tensor.shape))
        tensors.push_back({piece.name, piece.shape, dtype});
    write(shard_bytes);
  }
  void write(int64_t shard_bytes = 0) const {
    write_shards({path, tensors, shard_bytes},
                 [](const TensorInfo& t) { return at::randn(t.shape).to(t.dtype).contiguous(); });
  }
  std::string ours() const { return scratch / "ours"; }
  std::string back() const { return scratch / "back"; }
  void import(Upcycling upcycling = {}) const { import_model({.from = path, .to = ours(), .upcycling = upcycling}); }
  std::string says() const {
    const std::string line = refusal<InputError>([&] { import(); });
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_FALSE(fs::exists(ours())) << "nothing half-written stays";
    EXPECT_FALSE(fs::exists(ours() + ".part"));
    return line;
  }
};

void expect_same_weights(const std::string& a, const std::string& b) {
  const Shards one(a), other(b);
  EXPECT_EQ(one.names(), other.names());
  for (const std::string& name : one.names()) {
    EXPECT_EQ(one.info(name).dtype, other.info(name).dtype) << name;
    EXPECT_TRUE(one.read(name).equal(other.read(name))) << name;
  }
}

TEST(Transfer, gives_back_every_byte_whatever_the_shards) {
  for (const auto& [config, bytes] : {std::pair{kMixtral, 0}, {kMixtral, 700}, {kLlama, 0}}) {
    const Folder folder(config, at::kBFloat16, bytes);
    folder.import();
    export_model({.from = folder.ours(), .to = folder.back(), .shard_bytes = bytes ? 300 : 0});
    expect_same_weights(folder.path, folder.back());
    EXPECT_EQ(slurp(folder.back() + "/tokenizer.json"), slurp(folder.path + "/tokenizer.json"));
    EXPECT_EQ(fs::exists(folder.back() + "/model.safetensors.index.json"), bytes > 0);
    if (config == kMixtral) EXPECT_EQ(slurp(folder.back() + "/config.json"), kMixtral) << "verbatim";
  }
}

TEST(Transfer, keeps_unknown_keys_where_others_change) {
  const Folder folder(kMixtral);
  folder.import();
  export_model({.from = folder.ours(), .to = folder.back(), .dtype = "float32"});
  const ConfigJson json = ConfigJson::of(folder.back());
  EXPECT_EQ(json.integers("mystery"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(json.text("dtype"), "float32");
  EXPECT_EQ(Shards(folder.back()).info("lm_head.weight").dtype, at::kFloat);
}

TEST(Transfer, reads_experts_that_are_fused) {
  Folder folder(kMixtral);
  const Model model(folder.path);
  std::vector<TensorInfo> fused;
  for (TensorInfo info : folder.tensors)
    if (info.name.find("block_sparse_moe") == std::string::npos) fused.push_back(info);
  for (int layer : {0, 1}) {
    const std::string front = fmt::format("model.layers.{}.mlp.", layer);
    fused.push_back({front + "gate.weight", {3, 8}, at::kBFloat16});
    fused.push_back({front + "experts.gate_up_proj", {3, 12, 8}, at::kBFloat16});
    fused.push_back({front + "experts.down_proj", {3, 8, 6}, at::kBFloat16});
  }
  const std::string v5 = folder.scratch / "fused";
  fs::create_directories(v5);
  fs::copy_file(folder.path + "/config.json", v5 + "/config.json");
  std::map<std::string, TensorInfo> ours;
  for (const TensorInfo& info : tensors_of(model.config())) ours[info.name] = info;
  write_shards({v5, fused}, [&](const TensorInfo& t) {
    return model.read(ours.at(t.name)).to(at::kBFloat16).view(t.shape).contiguous();
  });
  const Model other(v5);
  other.require(tensors_of(other.config()));
  for (const TensorInfo& info : tensors_of(model.config()))
    EXPECT_TRUE(other.read(info).equal(model.read(info))) << info.name;
}

TEST(Transfer, names_the_key_that_it_does_not_compute) {
  const auto says = [](std::string_view key, const std::string& value) {
    ConfigJson json("config.json", with(kLlama, key, value));
    return refusal<InputError>([&] { settings_of(hub::family_of(json), json); });
  };
  EXPECT_EQ(says("mlp_bias", "true"), "config.json: \"mlp_bias\" = true: Plait's feed-forward has no biases");
  EXPECT_THAT(says("model_type", "\"mamba\""), testing::HasSubstr("Plait reads llama, mistral, mixtral"));
  EXPECT_THAT(says("rope_scaling", R"({"type": "dynamic", "factor": 2.0})"),
              testing::HasSubstr("default, linear, llama3 and yarn"));
  EXPECT_THAT(says("partial_rotary_factor", "0.5"), testing::HasSubstr("rotates whole heads"));
  EXPECT_THAT(says("hidden_act", "\"relu\""), testing::HasSubstr("expected silu"));
  EXPECT_THAT(says("quantization_config", "{}"), testing::HasSubstr("dequantise"));
  EXPECT_THAT(says("num_attention_heads", "\"two\""), testing::HasSubstr("expected a whole number"));
  EXPECT_THAT(says("layer_types", R"(["full_attention", "sliding_attention"])"), testing::HasSubstr("one kind"));
}

TEST(Transfer, names_tensor_and_file_of_what_does_not_fit) {
  Folder folder(kMixtral);
  const std::vector<TensorInfo> right = folder.tensors;
  folder.tensors.pop_back();
  folder.write();
  EXPECT_THAT(folder.says(), testing::HasSubstr("holds no tensor 'lm_head.weight'"));
  folder.tensors = right;
  folder.tensors.push_back({"model.extra", {2}, at::kFloat});
  folder.write();
  EXPECT_THAT(folder.says(), testing::HasSubstr("model.safetensors: tensor 'model.extra' is unknown"));
  folder.tensors = right;
  folder.tensors.front().shape = {21, 8};
  folder.write();
  EXPECT_THAT(folder.says(), testing::HasSubstr("'model.embed_tokens.weight' is [21, 8]; expected [20, 8]"));
  folder.tensors = right;
  folder.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, at::kFloat});
  folder.write();
  folder.import();
}

TEST(Transfer, reads_no_file_outside_the_folder) {
  Folder folder(kMixtral, at::kBFloat16, 700);
  const std::string index = folder.path + "/model.safetensors.index.json", text = slurp(index);
  const auto with_file = [&](const std::string& name) {
    spill(index, fmt::format(R"({{"weight_map": {{"lm_head.weight": "{}"}}}})", name));
    return folder.says();
  };
  EXPECT_THAT(with_file("../x.safetensors"), testing::HasSubstr("expected a name in the same folder"));
  EXPECT_THAT(with_file("/etc/passwd"), testing::HasSubstr("expected a name in the same folder"));
  EXPECT_THAT(with_file("model-00009-of-00009.safetensors"), testing::HasSubstr("which is not there"));
  EXPECT_THAT(with_file("model-00001-of-00003.safetensors"),
              testing::AnyOf(testing::HasSubstr("does not hold it"), testing::HasSubstr("not there")));
}

TEST(Transfer, of_broken_files_is_refused_in_one_line) {
  const Folder folder(kMixtral, at::kBFloat16, 700);
  for (const std::string name : {"config.json", "model.safetensors.index.json", "model-00001-of-00007.safetensors"}) {
    const std::string path = folder.path + "/" + name;
    if (!fs::exists(path)) continue;
    const std::string whole = slurp(path);
    const size_t header = std::min<size_t>(whole.size(), 1200);
    for (size_t at = 0; at < header; at += header / 40 + 1) {
      spill(path, whole.substr(0, at));
      folder.says();
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x15);
      spill(path, flipped);
      const std::string line = refusal<InputError>([&] { import_model({.from = folder.path, .to = folder.ours()}); });
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      fs::remove_all(folder.ours());
    }
    spill(path, whole);
  }
}

TEST(Transfer, never_writes_into_a_folder_that_holds_something) {
  const Folder folder(kLlama);
  fs::create_directories(folder.ours());
  spill(folder.ours() + "/mine", "text");
  EXPECT_THAT(refusal<InputError>([&] { folder.import(); }), testing::HasSubstr("is there and not empty"));
  EXPECT_EQ(slurp(folder.ours() + "/mine"), "text");
}

TEST(Upcycling, makes_every_expert_of_the_dense_feed_forward) {
  const Folder folder(kLlama, at::kFloat);
  const Model dense(folder.path), sparse(folder.path, {.experts = 3, .top_k = 2});
  const Config config = sparse.config();
  EXPECT_EQ(config.moe.num_experts, 3);
  EXPECT_EQ(config.moe.normalize, Normalize::before) << "weights of the routes sum to 1";
  const std::string layer = "model.layers.1.mlp.";
  const at::Tensor up = dense.read({layer + "gate_up_proj.weight", {2, 6, 8}}),
                   ups = sparse.read({layer + "experts.gate_up_proj", {3, 2, 6, 8}});
  for (int64_t e = 0; e < 3; ++e) EXPECT_TRUE(ups[e].equal(up));
  const Model noisy(folder.path, {.experts = 3, .noise = 0.1});
  const at::Tensor others = noisy.read({layer + "experts.down_proj", {3, 8, 6}});
  EXPECT_FALSE(others[0].equal(others[1]));
  EXPECT_LT(others[0].sub(others[1]).abs().max().item<double>(), 1);
  const Folder experts(kMixtral);
  EXPECT_THAT(refusal<InputError>([&] { experts.import({.experts = 2}); }), testing::HasSubstr("it has experts"));
}

}  // namespace
}  // namespace plait::hub
