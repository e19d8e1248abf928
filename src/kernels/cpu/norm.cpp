#include "kernels/cpu/norm.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 64;  // rows whose gain gradient is summed before it is added to the others

template <class T>
T inverse_rms(const T* x, int64_t width, double eps) {
  return static_cast<T>(1 / std::sqrt(static_cast<double>(dot(x, x, width)) / static_cast<double>(width) + eps));
}

// One row of the gradient: with n = x / rms and g = dy * gain, dx = (g - n * mean(g n)) / rms; dgain += dy * n.
template <class T>
struct Row {
  const T* __restrict x;
  const T* __restrict dy;
  T* __restrict dx;
};

template <class T>
void grad_row(const Row<T>& row, const T* __restrict gain, T* __restrict dgain, int64_t width, double eps) {
  const T* __restrict x = row.x;
  const T* __restrict dy = row.dy;
  T* __restrict dx = row.dx;
  T inverse = inverse_rms(x, width, eps);
  T along = sum_of<T>(width, [=](int64_t d) { return dy[d] * gain[d] * x[d]; });
  T pull = along * inverse * inverse * inverse / static_cast<T>(width);
  for (int64_t d = 0; d < width; ++d) {
    dx[d] = dy[d] * gain[d] * inverse - x[d] * pull;
    dgain[d] += dy[d] * x[d] * inverse;
  }
}

}  // namespace

void rms_norm(const at::Tensor& x_TD, const at::Tensor& gain_D, double eps, const at::Tensor& y_TD) {
  int64_t width = gain_D.numel(), rows = width == 0 ? 0 : x_TD.numel() / width;
  expects(x_TD.size(-1) == width && y_TD.numel() == x_TD.numel(), "rms_norm: x, gain and y do not fit");
  by_element(x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* x = in<E>(x_TD);
    const T* gain = in<T>(gain_D);
    E* y = out<E>(y_TD);
    over_rows(rows, 2 * width, [=](int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width);
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = wide(x + r * width, width, a.data());
        T* __restrict to = room(y + r * width, b.data());
        T inverse = inverse_rms(from, width, eps);
        for (int64_t d = 0; d < width; ++d) to[d] = from[d] * inverse * gain[d];
        settle(to, y + r * width, width);
      }
    });
  });
}

void rms_norm_grad(const RmsNormGrad& grad, double eps) {
  int64_t width = grad.gain_D.numel(), rows = width == 0 ? 0 : grad.x_TD.numel() / width;
  expects(grad.x_TD.size(-1) == width && grad.dgain_D.numel() == width, "rms_norm_grad: x and gain do not fit");
  expects(grad.dy_TD.numel() == grad.x_TD.numel() && grad.dx_TD.numel() == grad.x_TD.numel(),
          "rms_norm_grad: x, dy and dx do not fit");
  by_element(grad.x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E *x = in<E>(grad.x_TD), *dy = in<E>(grad.dy_TD);
    E* dx = out<E>(grad.dx_TD);
    const T* gain = in<T>(grad.gain_D);
    T* dgain = out<T>(grad.dgain_D);
    std::vector<T> sums((rows + kBlock - 1) / kBlock * width);
    over_blocks(rows, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width), c = space<E>(width);
      for (int64_t r = begin, at = begin * width; r < end; ++r, at += width) {
        const Row<T> row{wide(x + at, width, a.data()), wide(dy + at, width, b.data()), room(dx + at, c.data())};
        grad_row<T>(row, gain, sums.data() + block * width, width, eps);
        settle<E>(row.dx, dx + at, width);
      }
    });
    add_in_order<T>(sums, width, dgain);
  });
}

}  // namespace plait::kernels
