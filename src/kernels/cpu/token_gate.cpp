#include "kernels/cpu/token_gate.h"

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

constexpr int64_t kBlock = 64;  // rows that are summed before they are added to the others

template <class T>
T sigmoid(T z) {
  return 1 / (1 + std::exp(-z));
}

}  // namespace

void add_bias(const at::Tensor& x_TD, const at::Tensor& b_D, const at::Tensor& y_TD) {
  const int64_t rows = x_TD.size(0), width = b_D.numel();
  expects(x_TD.size(1) == width && y_TD.sizes() == x_TD.sizes(), "add_bias: x, b and y do not fit");
  by_element(x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* x = in<E>(x_TD);
    const T* __restrict b = in<T>(b_D);
    E* y = out<E>(y_TD);
    over_rows(rows, width, [=](int64_t begin, int64_t end) {
      std::vector<T> read = space<E>(width), written = space<E>(width);
      for (int64_t r = begin; r < end; ++r) {
        const T* from = wide(x + r * width, width, read.data());
        T* to = room(y + r * width, written.data());
#pragma GCC ivdep
        for (int64_t d = 0; d < width; ++d) to[d] = from[d] + b[d];
        settle(to, y + r * width, width);
      }
    });
  });
}

void bias_grad(const at::Tensor& dy_TD, const at::Tensor& db_D) {
  const int64_t rows = dy_TD.size(0), width = db_D.numel();
  expects(dy_TD.size(1) == width, "bias_grad: dy and db do not fit");
  by_element(dy_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* dy = in<E>(dy_TD);
    T* db = out<T>(db_D);
    std::vector<T> sums((rows + kBlock - 1) / kBlock * width);
    over_blocks(rows, kBlock, [&](int64_t block, int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width);
      T* __restrict sum = sums.data() + block * width;
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = wide(dy + r * width, width, a.data());
        for (int64_t d = 0; d < width; ++d) sum[d] += from[d];
      }
    });
    add_in_order<T>(sums, width, db);
  });
}

void gated(const at::Tensor& x_TD, const at::Tensor& z_T, const at::Tensor& y_TD) {
  const int64_t rows = x_TD.size(0), width = x_TD.size(1);
  expects(z_T.numel() == rows && y_TD.sizes() == x_TD.sizes(), "gated: x, z and y do not fit");
  by_element(x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E* x = in<E>(x_TD);
    const T* z = in<T>(z_T);
    E* y = out<E>(y_TD);
    over_rows(rows, width, [=](int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width);
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict from = wide(x + r * width, width, a.data());
        T* __restrict to = room(y + r * width, b.data());
        const T gate = sigmoid(z[r]);
        for (int64_t d = 0; d < width; ++d) to[d] = gate * from[d];
        settle(to, y + r * width, width);
      }
    });
  });
}

void gated_grad(const GatedGrad& grad) {
  const int64_t rows = grad.x_TD.size(0), width = grad.x_TD.size(1);
  expects(grad.z_T.numel() == rows && grad.dz_T.numel() == rows && grad.dy_TD.sizes() == grad.x_TD.sizes() &&
              grad.dx_TD.sizes() == grad.x_TD.sizes(),
          "gated_grad: values and gradients do not fit");
  by_element(grad.x_TD, [&]<class E>(E) {
    using T = Wide<E>;
    const E *x = in<E>(grad.x_TD), *dy = in<E>(grad.dy_TD);
    const T* z = in<T>(grad.z_T);
    E* dx = out<E>(grad.dx_TD);
    T* dz = out<T>(grad.dz_T);
    over_rows(rows, 2 * width, [=](int64_t begin, int64_t end) {
      std::vector<T> a = space<E>(width), b = space<E>(width), c = space<E>(width);
      for (int64_t r = begin, at = begin * width; r < end; ++r, at += width) {
        const T* __restrict from = wide(x + at, width, a.data());
        const T* __restrict back = wide(dy + at, width, b.data());
        T* __restrict to = room(dx + at, c.data());
        const T gate = sigmoid(z[r]);
        dz[r] = dot(from, back, width) * gate * (1 - gate);
        for (int64_t d = 0; d < width; ++d) to[d] = gate * back[d];
        settle(to, dx + at, width);
      }
    });
  });
}

namespace {

// to[i] = f(a[i], b[i]), all of one type.
template <class F>
void each_of_two(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to, F f) {
  expects(b.numel() == a.numel() && to.numel() == a.numel(), "clip: values do not fit");
  by_element(a, [&]<class E>(E) {
    const E *from = in<E>(a), *other = in<E>(b);
    E* result = out<E>(to);
    at::parallel_for(0, a.numel(), kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        result[i] = static_cast<E>(f(static_cast<Wide<E>>(from[i]), static_cast<Wide<E>>(other[i])));
    });
  });
}

}  // namespace

void clip(const at::Tensor& x, double bound, const at::Tensor& y) {
  each_of_two(x, x, y, [bound]<class T>(T a, T) {
    const T most = static_cast<T>(bound);
    return a > most ? most : a < -most ? -most : a;
  });
}

void clip_grad(const at::Tensor& x, const at::Tensor& dy, double bound, const at::Tensor& dx) {
  each_of_two(x, dy, dx, [bound]<class T>(T a, T back) { return std::abs(a) > static_cast<T>(bound) ? T(0) : back; });
}

}  // namespace plait::kernels
