// The values of one message laid end to end, without copying them: each begins at a multiple of 8 bytes, so that a cut
// at such a multiple never falls into an element.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

namespace plait::wire {

inline constexpr int64_t kCut = 64;  // slices of a sum start at cache lines

inline int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

inline std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

inline void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

struct Slice {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// The part of a message of `bytes` that a member sums.
inline Slice slice(int64_t bytes, int member, int num_members) {
  const int64_t lines = (bytes + kCut - 1) / kCut;
  const auto cut = [&](int64_t m) { return std::min(bytes, lines * m / num_members * kCut); };
  return {cut(member), cut(member + 1)};
}

// Where parts of these sizes begin, one after another.
inline std::vector<int64_t> starts_of(std::span<const int64_t> bytes) {
  std::vector<int64_t> starts(bytes.size());
  std::exclusive_scan(bytes.begin(), bytes.end(), starts.begin(), int64_t{0});
  return starts;
}

inline std::vector<int64_t> bytes_of_rows(std::span<const int64_t> rows, int64_t row_bytes) {
  std::vector<int64_t> bytes;
  for (int64_t r : rows) bytes.push_back(r * row_bytes);
  return bytes;
}

class Stream {
 public:
  struct Piece {
    std::byte* memory;
    int64_t bytes;
    at::ScalarType type;
    int64_t start;        // in the stream
    size_t value = 0;     // which of the values
    int64_t skipped = 0;  // bytes of that value before the piece
  };

  explicit Stream(std::span<const at::Tensor> values) {
    for (const at::Tensor& value : values) {
      const auto bytes = static_cast<int64_t>(value.nbytes());
      pieces_.push_back({bytes_of(value), bytes, value.scalar_type(), extent_, pieces_.size()});
      extent_ += padded(value.nbytes());
    }
  }

  int64_t extent() const { return extent_; }
  // Without what pads the last value.
  int64_t bytes() const { return pieces_.empty() ? 0 : pieces_.back().start + pieces_.back().bytes; }

  // each(piece, place in the stream): the parts of the values that lie in `part`, in order.
  template <class Each>
  void parts(Slice part, Each each) const {
    for (const Piece& piece : pieces_) {
      const int64_t begin = std::max(part.begin, piece.start), end = std::min(part.end, piece.start + piece.bytes);
      const int64_t skipped = begin - piece.start;
      if (begin < end) each(Piece{piece.memory + skipped, end - begin, piece.type, begin, piece.value, skipped}, begin);
    }
  }

 private:
  std::vector<Piece> pieces_;
  int64_t extent_ = 0;
};

}  // namespace plait::wire
