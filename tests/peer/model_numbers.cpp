// What a model computes, in float64, for a comparison with another program: model_numbers OUT CONFIG [key=value ..].
// train.init says where the weights are; OUT.tokens is a safetensors file with ids and targets, int64 [sequences,
// positions]. Writes the safetensors OUT: logits [tokens, vocabulary] of one rank, and of the layout of the config loss
// and "gradient.NAME" of each parameter.
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include "base/errors.h"
#include "checkpoint/safetensors.h"
#include "model/model.h"
#include "one_step.h"
#include "passes/lower.h"
#include "run/executor.h"
#include "train/resume.h"
#include "train/run_shape.h"

namespace plait {
namespace {

at::Tensor logits_of(const ModelSizes& sizes, const Tensors& parameters, const Tokens& tokens) {
  Executor forward(lower(build_logits(sizes).schedule), RankContext{.dtype = at::kDouble});
  for (const auto& [name, tensor] : parameters) forward.bind(name, tensor);
  forward.run([&](const std::string& leaf, int) { return leaf == "ids" ? tokens.ids : tokens.mask; });
  return forward.value(forward.schedule().outputs[0]).clone();
}

Tensors parameters_of(const ModelSizes& sizes, const Config& config) {
  const auto weights = weights_of(config, [](const std::string&) {});
  if (!weights) input_error("train.init says where the weights are");
  std::vector<TensorInfo> infos;
  for (const Parameter& p : build_model(Mesh{}, sizes).parameters) {
    TensorInfo info{.name = p.name, .shape = {}, .dtype = at::kDouble};
    for (const Dim& dim : p.dims) info.shape.push_back(dim.size);
    infos.push_back(std::move(info));
  }
  weights->require(infos);
  Tensors all;
  for (const TensorInfo& info : infos) all[info.name] = weights->read(info).to(at::kDouble).contiguous();
  return all;
}

void write(const std::string& path, const Tensors& tensors) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) infos.push_back({name, tensor.sizes().vec(), tensor.scalar_type()});
  SafetensorsWriter file(path, infos, {}, SafetensorsFor::all);
  for (const auto& [name, tensor] : tensors) file.write(tensor.contiguous());
  file.finish();
}

void compute(const std::string& out, const std::string& path, std::vector<std::string> overrides) {
  const SafetensorsFile given(out + ".tokens");
  const at::Tensor ids = given.read("ids"), targets = given.read("targets");
  overrides.insert(overrides.end(), {"train.dtype=float64", fmt::format("train.batch_size={}", ids.size(0)),
                                     fmt::format("train.seq_length={}", ids.size(1))});
  const Config config = ready_config(path, overrides);
  const RunShape shape = run_shape({config, default_machine(num_ranks(config))});
  ModelSizes alone = with_batch(shape.sizes, ids.size(0), ids.size(1));
  alone.family = &families::sharded;
  const Tokens tokens{ids.flatten(), targets.flatten(), at::ones_like(ids.flatten())};
  const Tensors parameters = parameters_of(alone, config);
  const StepOutcome step =
      run_steps({.mesh = shape.mesh.sizes(), .sizes = shape.sizes, .parameters = parameters, .micro = {tokens}});
  Tensors all = {{"logits", logits_of(alone, parameters, tokens)},
                 {"loss", at::full({1}, step.nll.front(), at::kDouble)}};
  for (const auto& [name, gradient] : step.gradients) all["gradient." + name] = gradient.to(at::kDouble);
  write(out, all);
}

}  // namespace
}  // namespace plait

int main(int count, char** words) {
  try {
    if (count < 3) plait::input_error("usage: model_numbers OUT CONFIG [key=value ..]");
    plait::compute(words[1], words[2], {words + 3, words + count});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "model_numbers: {}\n", error.what());
    return 1;
  }
}
