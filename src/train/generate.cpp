#include "train/generate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "base/errors.h"
#include "base/random.h"
#include "model/model.h"
#include "passes/lower.h"
#include "train/loop.h"

namespace plait {
namespace {

// A model on one rank, with a forward schedule for each length of window it was asked for (powers of two).
class Speaker {
 public:
  Speaker(const Checkpoint& checkpoint, const Catalogue& catalogue)
      : config_(resolve(parse_config(checkpoint.config(), "the checkpoint's config", {}, {}, catalogue))),
        sizes_(sizes()) {
    const Schedule s = build_logits(with_batch(sizes_, 1, 1)).schedule;
    const StepTypes where{s.mesh, 0, {}, {}, full_precision(dtype_of(config_))};
    for (const Leaf& leaf : s.leaves)
      if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
        parameters_[s.names[leaf.value]] = part_of(checkpoint.read(s.names[leaf.value]), leaf.type, where);
  }

  int64_t vocabulary() const { return sizes_.vocab; }
  int64_t window() const { return config_.train.seq_length; }

  // Logits of the token after the last of `text` (at most `window` tokens).
  std::vector<double> next(const std::vector<int64_t>& text) {
    const auto size = static_cast<int64_t>(text.size());
    int64_t length = 16;
    while (length < size) length *= 2;
    length = std::max(size, std::min(length, window()));
    Executor& forward = executor(length);
    const at::Tensor ids = at::zeros({length}, at::kLong), mask = at::zeros({length}, at::kLong);
    std::copy(text.begin(), text.end(), ids.mutable_data_ptr<int64_t>());
    mask.narrow(0, 0, size).fill_(1);
    forward.run([&](const std::string& leaf, int) {
      return leaf == "ids" ? ids : leaf == "positions" ? at::arange(length, at::kLong) : mask;
    });
    const at::Tensor row = forward.value(forward.schedule().outputs[0])[size - 1].to(at::kDouble).contiguous();
    const double* logits = row.const_data_ptr<double>();
    return {logits, logits + std::min<int64_t>(row.numel(), 256)};  // tokens are bytes
  }

 private:
  ModelSizes sizes() const {
    Config c = config_;
    c.mesh = {.tp = 1, .ep = 1, .esp = 1, .dp = 1, .threads = 1};
    c.schedule = {.moe = &families::ted};
    if (c.moe.gate->route->chooser == Chooser::expert && num_expert_layers(c) > 0)
      input_error("moe.gate = \"{}\" lets later tokens decide about earlier ones: it cannot go on with a text",
                  c.moe.gate->name);
    return model_sizes(c);
  }

  Executor& executor(int64_t length) {
    auto it = executors_.find(length);
    if (it != executors_.end()) return it->second;
    Model model = build_logits(with_batch(sizes_, 1, length));
    Executor& e =
        executors_.try_emplace(length, lower(model.schedule), RankContext{.dtype = dtype_of(config_)}).first->second;
    for (const auto& [name, tensor] : parameters_) e.bind(name, tensor);
    return e;
  }

  Config config_;
  ModelSizes sizes_;
  std::map<std::string, at::Tensor> parameters_;
  std::map<int64_t, Executor> executors_;
};

// A token drawn from the softmax of logits / temperature.
int64_t draw(const std::vector<double>& logits, double temperature, double u) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return best - logits.begin();
  std::vector<double> weight;
  for (double z : logits) weight.push_back(std::exp((z - *best) / temperature));
  double left = u * std::accumulate(weight.begin(), weight.end(), 0.0);
  for (size_t i = 0; i < weight.size(); ++i)
    if ((left -= weight[i]) <= 0) return static_cast<int64_t>(i);
  return best - logits.begin();
}

}  // namespace

std::string generate(const std::string& checkpoint, const GenerateOptions& options) {
  const auto latest = find_latest(checkpoint);
  Speaker speaker(Checkpoint(latest ? *latest : checkpoint), options.catalogue);
  if (options.prompt.empty()) input_error("the prompt is empty: give at least one character to go on from");
  for (unsigned char byte : options.prompt)
    if (byte >= speaker.vocabulary())
      input_error("the prompt has a byte {}, but the model knows only those below {}", byte, speaker.vocabulary());
  std::string text = options.prompt;
  if (options.piece) options.piece(text);
  const uint64_t key = random_key(options.seed, "generate");
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t from =
        text.size() > static_cast<size_t>(speaker.window()) ? text.size() - static_cast<size_t>(speaker.window()) : 0;
    std::vector<int64_t> ids;
    for (size_t c = from; c < text.size(); ++c) ids.push_back(static_cast<unsigned char>(text[c]));
    text += static_cast<char>(draw(speaker.next(ids), options.temperature, uniform(key, static_cast<uint64_t>(i))));
    if (options.piece) options.piece(text.substr(text.size() - 1));
  }
  return text;
}

}  // namespace plait
