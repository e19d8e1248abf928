#include "kernels/cpu/half.h"

#include <bit>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace plait::kernels {

void widen(const c10::BFloat16* from, float* to, int64_t size) {
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < size; ++i) to[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
}

void narrow(const float* from, c10::BFloat16* to, int64_t size) {
  uint16_t* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    out[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}

namespace {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
void widen_lanes(const c10::Half* from, float* to) {
  _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
void narrow_lanes(const float* from, c10::Half* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
constexpr int64_t kLanes = 8;
void widen_lanes(const c10::Half* from, float* to) {
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
void narrow_lanes(const float* from, c10::Half* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#else
constexpr int64_t kLanes = 1;
void widen_lanes(const c10::Half* from, float* to) { *to = static_cast<float>(*from); }
void narrow_lanes(const float* from, c10::Half* to) { *to = c10::Half(*from); }
#endif

}  // namespace

void widen(const c10::Half* from, float* to, int64_t size) {
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) widen_lanes(from + i, to + i);
  for (int64_t i = whole; i < size; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, c10::Half* to, int64_t size) {
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) narrow_lanes(from + i, to + i);
  for (int64_t i = whole; i < size; ++i) to[i] = c10::Half(from[i]);
}

}  // namespace plait::kernels
