#include "wire/node/free_places.h"

#include <algorithm>
#include <iterator>

#include "base/errors.h"

namespace plait::wire {

FreePlaces::FreePlaces(int64_t bytes) {
  if (bytes > 0) size_[0] = bytes;
}

std::optional<int64_t> FreePlaces::take(int64_t bytes) {
  const auto part = std::ranges::find_if(size_, [&](const auto& p) { return p.second >= bytes; });
  if (part == size_.end()) return std::nullopt;
  const auto [start, size] = *part;
  size_.erase(part);
  if (size > bytes) size_[start + bytes] = size - bytes;
  return start;
}

void FreePlaces::give_back(int64_t start, int64_t bytes) {
  auto next = size_.lower_bound(start);
  const bool joins_next = next != size_.end() && next->first == start + bytes;
  expects(next == size_.end() || next->first >= start + bytes, "memory is given back once");
  if (joins_next) {
    bytes += next->second;
    next = size_.erase(next);
  }
  if (next != size_.begin()) {
    const auto last = std::prev(next);
    expects(last->first + last->second <= start, "memory is given back once");
    if (last->first + last->second == start) {
      last->second += bytes;
      return;
    }
  }
  size_.emplace_hint(next, start, bytes);
}

int64_t FreePlaces::bytes() const {
  int64_t all = 0;
  for (const auto& [start, size] : size_) all += size;
  return all;
}

}  // namespace plait::wire
