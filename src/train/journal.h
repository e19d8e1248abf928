// What rank 0 alone writes under log.dir beside checkpoints: metrics.jsonl, loss.svg and config.resolved.toml.
#pragma once
#include <functional>
#include <string>

#include "base/metric_point.h"
#include "config/config.h"
#include "train/metrics.h"
#include "train/report.h"

namespace plait {

// In log.dir; what a run read, whole, as load_config reads it back. A config of a person's beside it stays as it is.
inline constexpr const char* kResolvedConfig = "config.resolved.toml";

class Journal {
 public:
  // Goes on after `last_step`. `tell`: a line about what was found and kept or cut off.
  Journal(const Config& config, int64_t last_step, const std::function<void(const std::string&)>& tell);

  // A line of metrics every log.every steps, and where the step was evaluated, skipped or is the last.
  void add(const StepReport& report);

  // loss.svg; takes as long after a million steps as after a thousand.
  void draw() const;

 private:
  std::string path(const char* file) const { return config_.log.dir + "/" + file; }
  const Config& config_;
  MetricsFile metrics_;
  MetricSeries train_, validation_;
};

}  // namespace plait
