#include "train/journal.h"

#include <filesystem>
#include <vector>

#include "base/errors.h"
#include "base/files.h"
#include "draw/curve.h"

namespace plait {
namespace {

constexpr std::string_view kOurs = "# Written by plait at every start of this run; changes are lost.\n";

void write_config(const std::string& path, const Config& config) {
  if (std::filesystem::exists(path) && !read_text(path).starts_with(kOurs))
    input_error("'{}' was not written by plait, which would write what a run read to it: give it another name", path);
  write_text(path, std::string(kOurs) + to_toml(config));
}

std::vector<JsonLine> lines(const std::vector<LayerLoad>& layers) {
  std::vector<JsonLine> all;
  for (const LayerLoad& l : layers)
    all.push_back(JsonLine{}
                      .add("layer", l.layer)
                      .add("share", l.share)
                      .add("busiest", l.busiest)
                      .add("dropped", l.dropped)
                      .add("dead", l.dead));
  return all;
}

JsonLine line_of(const StepReport& r) {
  JsonLine line;
  line.add("step", r.step)
      .add("loss", r.result.nll)
      .add("aux_loss", r.result.aux)
      .add("grad_norm", r.result.grad_norm)
      .add("lr", r.lr);
  line.add("ms", r.ms).add("tokens_per_s", r.tokens_per_s).add("gflops", r.gflops);
  if (!r.result.layers.empty())
    line.add("busiest", r.result.busiest).add("dropped", r.result.dropped).add("layers", lines(r.result.layers));
  if (r.result.loss_scale > 0) line.add("loss_scale", r.result.loss_scale).add("skipped", r.result.skipped ? 1 : 0);
  if (r.val_loss) line.add("val_loss", *r.val_loss);
  return line;
}

}  // namespace

Journal::Journal(const Config& config, int64_t last_step, const std::function<void(const std::string&)>& tell)
    : config_(config), metrics_(path("metrics.jsonl"), last_step, tell) {
  write_config(path(kResolvedConfig), config);
  for (const MetricPoint& point : read_metric(path("metrics.jsonl"), "loss")) train_.add(point);
  for (const MetricPoint& point : read_metric(path("metrics.jsonl"), "val_loss")) validation_.add(point);
}

void Journal::add(const StepReport& r) {
  if (r.step % config_.log.every != 0 && !r.val_loss && !r.result.skipped && r.step != r.steps) return;
  metrics_.add(line_of(r));
  if (std::isfinite(r.result.nll)) train_.add({r.step, r.result.nll});
  if (r.val_loss) validation_.add({r.step, *r.val_loss});
}

void Journal::draw() const {
  write_text(path("loss.svg"), draw_curve({.title = std::filesystem::path(config_.log.dir).filename().string(),
                                           .train = train_.means(),
                                           .extremes = train_.extremes(),
                                           .validation = validation_.means()}));
}

}  // namespace plait
