#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/errors.h"

namespace plait {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t hash64(uint64_t a, uint64_t b) { return mix(mix(a + kGolden) + (b + 1) * kGolden); }

uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3;
  return mix(hash);
}

uint64_t random_key(uint64_t seed, std::string_view name) { return hash64(seed, hash_name(name)); }

double uniform(uint64_t key, uint64_t index) { return (static_cast<double>(hash64(key, index) >> 12) + 0.5) * 0x1p-52; }

double normal(uint64_t key, uint64_t index) {
  const double radius = std::sqrt(-2 * std::log(uniform(key, 2 * index)));
  return radius * std::cos(2 * std::numbers::pi * uniform(key, 2 * index + 1));
}

uint64_t uniform_below(uint64_t key, uint64_t index, uint64_t n) {
  expects(n > 0, "uniform_below: nothing to choose from");
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash64(key, index)) * n) >> 64);
}

}  // namespace plait
