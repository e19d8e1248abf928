#include "small_run.h"

#include <csignal>

#include "base/stop.h"

namespace plait {

Config small_run(const std::string& dir, const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.hidden_size=16",
                                  "model.num_hidden_layers=2",
                                  "model.intermediate_size=24",
                                  "moe.every=2",
                                  "moe.num_experts=4",
                                  "train.seq_length=8",
                                  "train.batch_size=8",
                                  "train.steps=6",
                                  "train.eval_every=2",
                                  "train.eval_batches=1",
                                  "optim.lr=1e-2",
                                  "optim.warmup_steps=2",
                                  "log.dir=" + dir};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return ready_config("", all);
}

RunReport run_to(const Config& config, const data::Corpus& corpus, int64_t stop_after) {
  stop::forget();
  const RunObserver observer{.step = [&](const StepReport& r) {
    if (r.step == stop_after) stop::request(SIGTERM);
  }};
  const RunReport report = train(config, corpus, observer);
  stop::forget();
  return report;
}

void rewrite_checkpoint(const std::string& dir,
                        const std::function<void(const std::string& name, const at::Tensor& tensor)>& change) {
  const Checkpoint old(*find_latest(dir));
  std::map<std::string, at::Tensor> tensors;
  for (const auto* list : {&old.model(), &old.optimizer()})
    for (const TensorInfo& info : *list) {
      tensors[info.name] = old.read(info.name);
      change(info.name, tensors[info.name]);
    }
  CheckpointContent content{.state = {.step = old.step(), .seed = old.seed(), .config = old.config()},
                            .model = old.model(),
                            .optimizer = old.optimizer(),
                            .get = [&](const std::string& name) { return tensors.at(name); }};
  save_checkpoint(dir, content, 0);
}

}  // namespace plait
