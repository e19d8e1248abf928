// Random numbers as pure functions of (key, index): no state, no stream, so a value depends neither on the layout of
// the ranks nor on the order of calls. A key is made once per named thing: random_key(seed, "layers.0.gate.weight").
#pragma once
#include <cstdint>
#include <string_view>

namespace plait {

// Mixes two words into one that looks random: SplitMix64, started at a, after b steps.
uint64_t hash64(uint64_t a, uint64_t b);

// FNV-1a followed by a mixing step; the same on every machine.
uint64_t hash_name(std::string_view name);

uint64_t random_key(uint64_t seed, std::string_view name);

// In (0, 1), never 0 and never 1; 52 random bits.
double uniform(uint64_t key, uint64_t index);

// Mean 0, variance 1 (Box and Muller 1958); largest magnitude 8.7.
double normal(uint64_t key, uint64_t index);

// In [0, n), by a 128-bit product (bias below n / 2^64). REQUIRES n > 0.
uint64_t uniform_below(uint64_t key, uint64_t index, uint64_t n);

}  // namespace plait
