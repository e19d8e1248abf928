#include "wire/sum.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "kernels/cpu/half.h"

namespace plait::wire {
namespace {

constexpr int64_t kBlockBytes = 8192;

template <class T>
const T* typed(const std::byte* memory, int64_t offset) {
  return reinterpret_cast<const T*>(memory + offset);
}

template <class T>
void sum_typed(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, int64_t bytes) {
  alignas(64) T block[kBlockBytes / sizeof(T)];
  for (int64_t offset = 0; offset < bytes; offset += kBlockBytes) {
    const int64_t size = std::min(kBlockBytes, bytes - offset);
    const int64_t count = size / static_cast<int64_t>(sizeof(T));
    std::memcpy(block, sources[0] + offset, size);
    for (const auto* source : sources.subspan(1)) {
      const T* x = typed<T>(source, offset);
      for (int64_t i = 0; i < count; ++i) block[i] += x[i];
    }
    for (auto* target : targets) std::memcpy(target + offset, block, size);
  }
}

// Numbers of 2 bytes are added up in float32 and rounded once.
template <class T>
void sum_halves(std::span<const std::byte* const> sources, std::span<std::byte* const> targets, int64_t bytes) {
  constexpr int64_t kBlock = kBlockBytes / sizeof(float);
  alignas(64) float block[kBlock], x[kBlock];
  alignas(64) T rounded[kBlock];
  const int64_t all = bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t first = 0; first < all; first += kBlock) {
    const int64_t count = std::min(kBlock, all - first), offset = first * static_cast<int64_t>(sizeof(T));
    kernels::widen(typed<T>(sources[0], offset), block, count);
    for (const auto* source : sources.subspan(1)) {
      kernels::widen(typed<T>(source, offset), x, count);
      for (int64_t i = 0; i < count; ++i) block[i] += x[i];
    }
    kernels::narrow(block, rounded, count);
    for (auto* target : targets) std::memcpy(target + offset, rounded, count * sizeof(T));
  }
}

}  // namespace

void sum_into(at::ScalarType type, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
              int64_t bytes) {
  switch (type) {
    case at::kFloat: return sum_typed<float>(sources, targets, bytes);
    case at::kDouble: return sum_typed<double>(sources, targets, bytes);
    case at::kLong: return sum_typed<int64_t>(sources, targets, bytes);
    case at::kBFloat16: return sum_halves<c10::BFloat16>(sources, targets, bytes);
    case at::kHalf: return sum_halves<c10::Half>(sources, targets, bytes);
    default: expects(false, "sums real numbers and int64 only");
  }
}

}  // namespace plait::wire
