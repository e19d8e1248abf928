// metrics.jsonl: one JSON object a line, each with a `step`, on the disk's side of this process as soon as it is added.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/metric_point.h"

namespace plait {

class MetricsFile {
 public:
  // Continues a file: lines up to `last_step` stay, later ones and a line cut short are dropped. -1: begins anew.
  MetricsFile(std::string path, int64_t last_step);

  // REQUIRES: the line has a `step`.
  void add(const JsonLine& line);

 private:
  std::string path_;
  std::ofstream file_;
};

// The values of one key, in the order of the file; lines without it, or with null, are passed over.
std::vector<MetricPoint> read_metric(const std::string& path, const std::string& key);

}  // namespace plait
