#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/errors.h"
#include "base/files.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

// The number of a key in a line that this program wrote; nothing where it has none, or null.
std::optional<double> number_in(std::string_view line, std::string_view key) {
  const std::string begin = fmt::format("\"{}\": ", key);
  const size_t at = line.find(begin);
  if (at == std::string_view::npos) return {};
  double value = 0;
  const char* first = line.data() + at + begin.size();
  const auto [end, error] = std::from_chars(first, line.data() + line.size(), value);
  return error == std::errc() && end != first ? std::optional(value) : std::nullopt;
}

// Of a whole line; nothing when it was cut short: a process may end in the middle of one.
std::optional<int64_t> step_of(std::string_view line) {
  if (!line.starts_with('{') || !line.ends_with('}')) return {};
  const auto step = number_in(line, "step");
  return step ? std::optional(static_cast<int64_t>(*step)) : std::nullopt;
}

struct Cut {
  int64_t bytes = 0, lines = 0;  // that stay; that go
};

// The file's tail, block by block, until a line is found that stays.
Cut cut_after(const std::string& path, int64_t last_step) {
  constexpr int64_t kBlock = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  const auto size = static_cast<int64_t>(fs::file_size(path));
  int64_t lines = 0, end = size;  // of what was not looked at yet
  std::string tail;               // the beginning of a line whose end was seen
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - kBlock);
    std::string block(static_cast<size_t>(end - begin), ' ');
    file.seekg(begin);
    file.read(block.data(), end - begin);
    block += tail;
    size_t stop = block.size();
    while (stop > 0) {
      const size_t newline = block.rfind('\n', stop - 1 - (block[stop - 1] == '\n'));
      if (newline == std::string::npos && begin > 0) break;
      const size_t first = newline == std::string::npos || newline + 1 >= stop ? 0 : newline + 1;
      std::string_view line(block.data() + first, stop - first);
      const bool whole = line.ends_with('\n');
      if (whole) line.remove_suffix(1);
      const auto step = step_of(line);
      if (whole && step && *step <= last_step) return {begin + static_cast<int64_t>(stop), lines};
      ++lines;
      stop = first;
    }
    tail = block.substr(0, stop);
    end = begin;
  }
  return {0, lines};
}

// metrics.jsonl -> metrics.1.jsonl, or the next number that is free.
std::string free_name(const std::string& path) {
  const fs::path file(path);
  for (int i = 1;; ++i) {
    const fs::path name =
        file.parent_path() / fmt::format("{}.{}{}", file.stem().string(), i, file.extension().string());
    if (!fs::exists(name)) return name.string();
  }
}

std::string begin_at(const std::string& path, int64_t last_step) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  if (failure || size == 0) return {};
  if (last_step <= 0) {
    const std::string name = free_name(path);
    rename_durably(path, name);
    return fmt::format("{} is of a run that left no checkpoint: kept as {}", path, name);
  }
  const Cut cut = cut_after(path, last_step);
  if (cut.bytes == static_cast<int64_t>(size)) return {};
  if (::truncate(path.c_str(), cut.bytes) != 0) input_error("cannot write '{}'", path);
  return fmt::format("{}: {} line{} after step {} cut off, as the run goes on from there", path, cut.lines,
                     cut.lines == 1 ? "" : "s", last_step);
}

}  // namespace

MetricsFile::MetricsFile(std::string path, int64_t last_step, const std::function<void(const std::string&)>& tell)
    : path_(std::move(path)) {
  const std::string done = begin_at(path_, last_step);
  if (tell && !done.empty()) tell(done);
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
    const auto step = step_of(line);
    const auto value = number_in(line, key);
    if (step && value && std::isfinite(*value)) points.push_back({.step = *step, .value = *value});
  }
  return points;
}

}  // namespace plait
