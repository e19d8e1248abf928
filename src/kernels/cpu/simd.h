// Loops a compiler turns into vector code: sums in a fixed interleaved order, and an exponential without branches.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace plait::kernels {

// sum of term(i) over i < size, in 64 interleaved partial sums that are added in a fixed order.
template <class T, class Term>
T sum_of(int64_t size, Term term) {
  constexpr int64_t kLanes = 64;
  T lane[kLanes] = {};
  int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lane[j] += term(i + j);
  for (int64_t i = whole; i < size; ++i) lane[i - whole] += term(i);
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

template <class T>
T dot(const T* __restrict x, const T* __restrict y, int64_t size) {
  return sum_of<T>(size, [=](int64_t i) { return x[i] * y[i]; });
}

// The largest of x[0..size), -inf for none; NaN loses, so callers that must see one check for it.
template <class T>
T max_of(const T* x, int64_t size) {
  constexpr int64_t kLanes = 64;
  T lane[kLanes];
  for (T& l : lane) l = -INFINITY;
  int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  for (int64_t i = whole; i < size; ++i) lane[i - whole] = x[i] > lane[i - whole] ? x[i] : lane[i - whole];
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t j = 0; j < half; ++j) lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
  return lane[0];
}

// e^x within 2 ulp; 0 below -87.3, 3e38 above 88.3; NaN stays. The integer part of x / ln 2 goes to the exponent
// bits, a polynomial does the rest in [-ln 2 / 2, ln 2 / 2].
inline float fast_exp(float x) {
  constexpr float kRound = 12582912.f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  float y = x > 88.3f ? 88.3f : x;
  y = y < -87.3f ? -87.3f : y;
  float shifted = y * 1.44269504f + kRound;
  float n = shifted - kRound;
  float r = std::fma(n, -0.693145752f, y);
  r = std::fma(n, -1.42860677e-6f, r);
  float p = 1.98412698e-4f;
  p = std::fma(p, r, 1.38888889e-3f);
  p = std::fma(p, r, 8.33333333e-3f);
  p = std::fma(p, r, 4.16666667e-2f);
  p = std::fma(p, r, 0.166666667f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.f);
  p = std::fma(p, r, 1.f);
  float e = std::bit_cast<float>(std::bit_cast<int32_t>(p) + (std::bit_cast<int32_t>(shifted) << 23));
  return x < -87.3f ? 0.f : e;
}

inline double fast_exp(double x) { return std::exp(x); }

// The error function: exact in float64; in float32 within 2e-7 (Abramowitz and Stegun 7.1.26).
inline float fast_erf(float x) {
  float a = std::abs(x), t = 1.f / (1.f + 0.3275911f * a);
  float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  return std::copysign(1.f - p * fast_exp(-a * a), x);
}

inline double fast_erf(double x) { return std::erf(x); }

}  // namespace plait::kernels
