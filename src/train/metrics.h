// metrics.jsonl: one JSON object a line, each with a `step`, on the disk's side of this process as soon as it is added.
#pragma once
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/metric_point.h"

namespace plait {

class MetricsFile {
 public:
  // Continues a file whose steps ascend: later lines than `last_step`, and one cut short, are cut off. With no step
  // done yet a file that is there belongs to a run that left no checkpoint: it is kept under another name. What was
  // done is told in a line. InputError where the file cannot be written.
  MetricsFile(std::string path, int64_t last_step, const std::function<void(const std::string&)>& tell = {});

  // REQUIRES: the line has a `step`.
  void add(const JsonLine& line);

 private:
  std::string path_;
  std::ofstream file_;
};

// The values of one key, in the order of the file; lines without it, or with null, are passed over. Reads a line of
// this program's at the speed of the disk, as it looks for nothing else.
std::vector<MetricPoint> read_metric(const std::string& path, const std::string& key);

}  // namespace plait
