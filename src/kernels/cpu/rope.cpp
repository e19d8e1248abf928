#include "kernels/cpu/rope.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "kernels/cpu/kernel.h"

namespace plait::kernels {

// Angles are computed in float64 and rounded once.
RopeTable rope_table(int64_t positions, int64_t head_size, double theta, at::ScalarType dtype) {
  expects(head_size % 2 == 0, "rope: the size of a head is even");
  int64_t half = head_size / 2;
  if (dtype != at::kDouble) dtype = at::kFloat;
  RopeTable table{at::empty({positions, half}, dtype), at::empty({positions, half}, dtype)};
  by_dtype(table.cos_Sa, [&]<class T>(T) {
    T *cos = out<T>(table.cos_Sa), *sin = out<T>(table.sin_Sa);
    for (int64_t a = 0; a < half; ++a) {
      double frequency = std::pow(theta, -2.0 * static_cast<double>(a) / static_cast<double>(head_size));
      for (int64_t s = 0; s < positions; ++s) {
        cos[s * half + a] = static_cast<T>(std::cos(static_cast<double>(s) * frequency));
        sin[s * half + a] = static_cast<T>(std::sin(static_cast<double>(s) * frequency));
      }
    }
  });
  return table;
}

void rope(const at::Tensor& x_BSHA, const RopeTable& table, Direction direction, const at::Tensor& y_BSHA) {
  expects(x_BSHA.dim() == 4 && y_BSHA.sizes() == x_BSHA.sizes(), "rope: x and y are [B, S, H, A]");
  int64_t positions = x_BSHA.size(1), heads = x_BSHA.size(2), half = table.cos_Sa.size(1);
  expects(x_BSHA.size(3) == 2 * half && table.cos_Sa.size(0) >= positions, "rope: the table does not fit x");
  by_element(x_BSHA, [&]<class E>(E) {
    using T = Wide<E>;
    const E* x = in<E>(x_BSHA);
    const T *cosines = in<T>(table.cos_Sa), *sines = in<T>(table.sin_Sa);
    E* y = out<E>(y_BSHA);
    T sign = direction == Direction::forward ? T{1} : T{-1};
    over_rows(x_BSHA.size(0) * positions, 2 * heads * half, [=](int64_t begin, int64_t end) {
      std::vector<T> read = space<E>(2 * half), written = space<E>(2 * half);
      for (int64_t row = begin; row < end; ++row) {
        const T* cos = cosines + row % positions * half;
        const T* sin = sines + row % positions * half;
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t at = (row * heads + h) * 2 * half;
          const T* from = wide(x + at, 2 * half, read.data());
          T* to = room(y + at, written.data());
#pragma GCC ivdep
          for (int64_t a = 0; a < half; ++a) {
            T low = from[a], high = from[half + a], turned = sign * sin[a];
            to[a] = low * cos[a] - high * turned;
            to[half + a] = high * cos[a] + low * turned;
          }
          settle(to, y + at, 2 * half);
        }
      }
    });
  });
}

}  // namespace plait::kernels
