// The random numbers of a gate as functions of the training step, the layer, the global token and the expert: the same
// at every layout. `step_key` is fed for each micro-batch, below 2^52 so that a double holds it.
#pragma once
#include <cmath>

#include "base/random.h"

namespace plait {

enum class Draw : uint64_t { priority, sample, jitter, noise };

inline uint64_t draw_key(int64_t step_key, int64_t stream, Draw purpose) {
  return hash64(hash64(static_cast<uint64_t>(step_key), static_cast<uint64_t>(stream)), static_cast<uint64_t>(purpose));
}

// In (0, 1); `index` counts elements of the global [T, E] (or [T, D]).
inline double draw(uint64_t key, int64_t index) { return uniform(key, static_cast<uint64_t>(index)); }

// Added to logits, it makes their maximum a draw from their softmax (Gumbel 1954).
inline double gumbel(double u) { return -std::log(-std::log(u)); }

// The draws of a rank's part of a global [T, columns], which begins at row `first_row` and column `first_column`.
struct Draws {
  uint64_t key = 0;
  int64_t first_row = 0, columns = 1, first_column = 0;

  int64_t index(int64_t row, int64_t column) const { return (first_row + row) * columns + first_column + column; }
  double uniform(int64_t row, int64_t column) const { return draw(key, index(row, column)); }  // in (0, 1)
  double normal(int64_t row, int64_t column) const {
    return plait::normal(key, static_cast<uint64_t>(index(row, column)));
  }
};

}  // namespace plait
