#include "bench/machine_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace plait {
namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;  // floats in one register
#else
constexpr int kLanes = 8;
#endif
constexpr int kChains = 12;  // sums in flight: enough to hide the latency of one, few enough for the registers

// Multiply-adds on values that never leave the registers: what the arithmetic units can do.
float multiply_adds(int64_t rounds) {
  using Vector = float __attribute__((vector_size(4 * kLanes)));
  Vector sum[kChains];
  for (int k = 0; k < kChains; ++k)
    sum[k] = Vector{} + static_cast<float>(k);  // unlike, or they would be computed once
  const Vector a = Vector{} + 0.999f, b = Vector{} + 1e-3f;
  for (int64_t i = 0; i < rounds; ++i)
    for (Vector& s : sum) s = s * a + b;
  float total = 0;
  for (const Vector& s : sum) total += s[0] + s[kLanes - 1];
  return total;
}

}  // namespace

double fastest(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
}

double register_flops(int threads) {
  constexpr int64_t kRounds = 4'000'000;
  std::vector<float> sink(static_cast<size_t>(threads) * 16);
  const double seconds =
      fastest([&] { on_threads(threads, [&](int t) { sink[static_cast<size_t>(t) * 16] = multiply_adds(kRounds); }); });
  return 2.0 * kLanes * kChains * kRounds * threads / seconds;
}

}  // namespace plait
