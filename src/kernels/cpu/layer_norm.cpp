#include "kernels/cpu/layer_norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 64;  // rows whose gradients of gain and bias are summed before they are added to the others

template <class T>
struct Stats {
  T mean, inverse;  // 1 / sqrt(variance + eps)
};

template <class T>
Stats<T> stats_of(const T* x, int64_t width, double eps) {
  const T mean = sum_of<T>(width, [=](int64_t d) { return x[d]; }) / static_cast<T>(width);
  const T squares = sum_of<T>(width, [=](int64_t d) { return (x[d] - mean) * (x[d] - mean); });
  return {mean, static_cast<T>(1 / std::sqrt(static_cast<double>(squares) / static_cast<double>(width) + eps))};
}

template <class T>
struct Row {
  const T* __restrict x;
  const T* __restrict dy;
  T* __restrict dx;
};

// With n = (x - mean) * inverse and g = dy * gain: dx = (g - mean(g) - n * mean(g n)) * inverse; dgain += dy * n;
// dbias += dy.
template <class T>
void grad_row(const Row<T>& row, const T* __restrict gain, T* __restrict sums, int64_t width, double eps) {
  const T* __restrict x = row.x;
  const T* __restrict dy = row.dy;
  T* __restrict dx = row.dx;
  const auto [mean, inverse] = stats_of(x, width, eps);
  const T shift = mean, scale = inverse;
  const T pull = dot(dy, gain, width) / static_cast<T>(width);
  const T along = sum_of<T>(width, [=](int64_t d) { return dy[d] * gain[d] * (x[d] - shift); });
  const T turn = along * scale * scale / static_cast<T>(width);
  T* __restrict dgain = sums;
  T* __restrict dbias = sums + width;
#pragma GCC ivdep
  for (int64_t d = 0; d < width; ++d) {
    const T centred = x[d] - shift;
    dx[d] = (dy[d] * gain[d] - pull - centred * turn) * scale;
    dgain[d] += dy[d] * centred * scale;
    dbias[d] += dy[d];
  }
}

}  // namespace

void layer_norm(const LayerNorm& norm, double eps) {
  const int64_t width = norm.gain_D.numel(), rows = width == 0 ? 0 : norm.x_TD.numel() / width;
  expects(norm.x_TD.size(-1) == width && norm.bias_D.numel() == width && norm.y_TD.numel() == norm.x_TD.numel(),
          "layer_norm: x, gain, bias and y do not fit");
  by_element(norm.x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* x = in<E>(norm.x_TD);
    const T* __restrict gain = in<T>(norm.gain_D);
    const T* __restrict bias = in<T>(norm.bias_D);
    E* y = out<E>(norm.y_TD);
    over_rows(rows, 3 * width, [=](int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width);
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = wide(x + r * width, width, a.data());
        T* __restrict to = room(y + r * width, b.data());
        const Stats<T> s = stats_of(from, width, eps);
#pragma GCC ivdep
        for (int64_t d = 0; d < width; ++d) to[d] = (from[d] - s.mean) * s.inverse * gain[d] + bias[d];
        settle(to, y + r * width, width);
      }
    });
  });
}

void layer_norm_grad(const LayerNormGrad& grad, double eps) {
  const int64_t width = grad.gain_D.numel(), rows = width == 0 ? 0 : grad.x_TD.numel() / width;
  expects(grad.x_TD.size(-1) == width && grad.dgain_D.numel() == width && grad.dbias_D.numel() == width,
          "layer_norm_grad: x, gain and their gradients do not fit");
  expects(grad.dy_TD.numel() == grad.x_TD.numel() && grad.dx_TD.numel() == grad.x_TD.numel(),
          "layer_norm_grad: x, dy and dx do not fit");
  by_element(grad.x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E *x = in<E>(grad.x_TD), *dy = in<E>(grad.dy_TD);
    E* dx = out<E>(grad.dx_TD);
    const T* gain = in<T>(grad.gain_D);
    T *dgain = out<T>(grad.dgain_D), *dbias = out<T>(grad.dbias_D);
    std::vector<T> sums((rows + kBlock - 1) / kBlock * 2 * width), both(2 * width);
    over_blocks(rows, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width), c = space<E>(width);
      for (int64_t r = begin, at = begin * width; r < end; ++r, at += width) {
        const Row<T> row{wide(x + at, width, a.data()), wide(dy + at, width, b.data()), room(dx + at, c.data())};
        grad_row<T>(row, gain, sums.data() + block * 2 * width, width, eps);
        settle<E>(row.dx, dx + at, width);
      }
    });
    add_in_order<T>(sums, 2 * width, both.data());
    std::copy_n(both.begin(), width, dgain);
    std::copy_n(both.begin() + width, width, dbias);
  });
}

}  // namespace plait::kernels
