#include "train/metrics.h"

#include <cmath>
#include <filesystem>
#include <optional>

#include "base/errors.h"
#include "base/files.h"

namespace plait {
namespace {

// The line's object, or nothing when the line was cut short: a process may end in the middle of one.
std::optional<JsonObject> parse_line(const std::string& line, const std::string& path) try {
  auto object = JsonObject::parse(line, path);
  object.integer("step");
  return object;
} catch (const InputError&) {
  return {};
}

void keep_until(const std::string& path, int64_t last_step) {
  std::ifstream old(path, std::ios::binary);
  DurableFile kept(path);
  for (std::string line; std::getline(old, line);) {
    const auto object = parse_line(line, path);
    if (object && object->integer("step") <= last_step) kept.write(line + "\n");
  }
  kept.commit();
}

}  // namespace

MetricsFile::MetricsFile(std::string path, int64_t last_step) : path_(std::move(path)) {
  keep_until(path_, last_step);
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) input_error("cannot write '{}'", path_);
}

void MetricsFile::add(const JsonLine& line) {
  file_ << line.str() << '\n' << std::flush;
  if (!file_) input_error("cannot write '{}'", path_);
}

std::vector<MetricPoint> read_metric(const std::string& path, const std::string& key) {
  std::vector<MetricPoint> points;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const auto object = parse_line(line, path);
    if (!object || !object->has(key)) continue;
    const double value = object->number(key);
    if (std::isfinite(value)) points.push_back({.step = object->integer("step"), .value = value});
  }
  return points;
}

}  // namespace plait
