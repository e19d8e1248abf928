#include "kernels/cpu/activation.h"

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
namespace {

struct Silu {
  template <class T>
  static T value(T x) {
    return x / (1 + fast_exp(-x));
  }
  template <class T>
  static T slope(T x) {
    T s = 1 / (1 + fast_exp(-x));
    return s * (1 + x * (1 - s));
  }
};

struct Gelu {
  template <class T>
  static T below(T x) {  // the normal distribution
    return T(0.5) * (1 + fast_erf(x * T(0.70710678118654752440)));
  }
  template <class T>
  static T value(T x) {
    return x * below(x);
  }
  template <class T>
  static T slope(T x) {
    return below(x) + x * T(0.39894228040143267794) * fast_exp(T(-0.5) * x * x);
  }
};

// (1 + tanh(u)) / 2 is the sigmoid of 2u (Hendrycks and Gimpel 2016).
struct GeluTanh {
  template <class T>
  static T below(T x) {
    return 1 / (1 + fast_exp(x * (T(-1.5957691216057308) - T(0.07135481627260025) * x * x)));
  }
  template <class T>
  static T value(T x) {
    return x * below(x);
  }
  template <class T>
  static T slope(T x) {
    const T s = below(x);
    return s + x * s * (1 - s) * (T(1.5957691216057308) + T(0.21406444881780073) * x * x);
  }
};

struct Relu {
  template <class T>
  static T value(T x) {
    return x > 0 ? x : T(0);
  }
  template <class T>
  static T slope(T x) {
    return x > 0 ? T(1) : T(0);
  }
};

template <class Body>
void by_act(Act act, Body body) {
  switch (act) {
    case Act::silu: return body(Silu{});
    case Act::gelu: return body(Gelu{});
    case Act::relu: return body(Relu{});
    case Act::gelu_tanh: return body(GeluTanh{});
  }
}

void expects_pair(const at::Tensor& x_RUF, const at::Tensor& y_RF) {
  expects(x_RUF.size(-2) == 2, "glu: x holds gate and up");
  expects(x_RUF.numel() == 2 * y_RF.numel() && x_RUF.size(-1) == y_RF.size(-1), "glu: x and y do not fit");
}

constexpr int64_t kStretch = 64;  // elements between askings for memory

// Rows of gate and up lie by turns, so the processor's own fetching ahead loses each stream at the end of its row: the
// same place of the next row is asked for here. An address beyond the last row is harmless.
template <class T>
void fetch(const T* next, int64_t size) {
  for (int64_t i = 0; i < std::min(size, kStretch); i += 64 / static_cast<int64_t>(sizeof(T)))
    __builtin_prefetch(next + i);
}

template <class A, class T>
void glu_row(const T* __restrict gate, const T* __restrict up, T* __restrict y, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += kStretch) {
    const int64_t left = size - begin, end = begin + std::min(left, kStretch);
    fetch(gate + 2 * size + begin, left);
    fetch(up + 2 * size + begin, left);
    fetch(y + size + begin, left);
    for (int64_t f = begin; f < end; ++f) y[f] = A::value(gate[f]) * up[f];
  }
}

template <class A, class T>
void glu_grad_row(const T* x, const T* dy, T* dx, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += kStretch) {
    const int64_t left = size - begin, end = begin + std::min(left, kStretch);
    for (int64_t next : {2 * size, 3 * size}) {
      fetch(x + next + begin, left);
      fetch(dx + next + begin, left);
    }
    fetch(dy + size + begin, left);
#pragma GCC ivdep
    for (int64_t f = begin; f < end; ++f) {
      const T gate = dy[f] * x[size + f] * A::slope(x[f]), up = dy[f] * A::value(x[f]);
      dx[f] = gate;
      dx[size + f] = up;
    }
  }
}

}  // namespace

void glu(Act act, const at::Tensor& x_RUF, const at::Tensor& y_RF) {
  expects_pair(x_RUF, y_RF);
  int64_t width = y_RF.size(-1), rows = width == 0 ? 0 : y_RF.numel() / width;
  by_element(x_RUF, [&]<class E>(E) {
    const E* x = in<E>(x_RUF);
    E* y = out<E>(y_RF);
    by_act(act, [&]<class A>(A) {
      over_rows(rows, 3 * width, [&](int64_t begin, int64_t end) {
        std::vector<Wide<E>> read = space<E>(2 * width), written = space<E>(width);
        for (int64_t r = begin; r < end; ++r) {
          const Wide<E>* from = wide(x + 2 * r * width, 2 * width, read.data());
          Wide<E>* to = room(y + r * width, written.data());
          glu_row<A>(from, from + width, to, width);
          settle(to, y + r * width, width);
        }
      });
    });
  });
}

void glu_grad(Act act, const at::Tensor& x_RUF, const at::Tensor& dy_RF, const at::Tensor& dx_RUF) {
  expects_pair(x_RUF, dy_RF);
  expects(dx_RUF.sizes() == x_RUF.sizes(), "glu_grad: x and dx do not fit");
  int64_t width = dy_RF.size(-1), rows = width == 0 ? 0 : dy_RF.numel() / width;
  by_element(x_RUF, [&]<class E>(E) {
    const E *x = in<E>(x_RUF), *dy = in<E>(dy_RF);
    E* dx = out<E>(dx_RUF);
    by_act(act, [&]<class A>(A) {
      over_rows(rows, 5 * width, [&](int64_t begin, int64_t end) {
        std::vector<Wide<E>> a = space<E>(2 * width), b = space<E>(width), c = space<E>(2 * width);
        for (int64_t r = begin; r < end; ++r) {
          Wide<E>* to = room(dx + 2 * r * width, c.data());
          glu_grad_row<A>(wide(x + 2 * r * width, 2 * width, a.data()), wide(dy + r * width, width, b.data()), to,
                          width);
          settle(to, dx + 2 * r * width, 2 * width);
        }
      });
    });
  });
}

void activate(Act act, const at::Tensor& x, const at::Tensor& y) {
  expects(x.numel() == y.numel(), "activate: x and y do not fit");
  by_element(x, [&]<class E>(E) {
    const E* xs = in<E>(x);
    E* ys = out<E>(y);
    by_act(act, [&]<class A>(A) {
      over_stretches<E>(x.numel(), [=](int64_t at, int64_t size, Wide<E>* space) {
        const Wide<E>* __restrict from = wide(xs + at, size, space);
        Wide<E>* __restrict to = room(ys + at, space + kStretchOfHalves);
        for (int64_t i = 0; i < size; ++i) to[i] = A::value(from[i]);
        settle(to, ys + at, size);
      });
    });
  });
}

void activate_grad(Act act, const at::Tensor& x, const at::Tensor& dy, const at::Tensor& dx) {
  expects(x.numel() == dy.numel() && x.numel() == dx.numel(), "activate_grad: x, dy and dx do not fit");
  by_element(x, [&]<class E>(E) {
    const E *xs = in<E>(x), *dys = in<E>(dy);
    E* dxs = out<E>(dx);
    by_act(act, [&]<class A>(A) {
      over_stretches<E>(x.numel(), [=](int64_t at, int64_t size, Wide<E>* space) {
        const Wide<E>*from = wide(xs + at, size, space), *g = wide(dys + at, size, space + kStretchOfHalves);
        Wide<E>* to = room(dxs + at, space + 2 * kStretchOfHalves);
#pragma GCC ivdep
        for (int64_t i = 0; i < size; ++i) to[i] = g[i] * A::slope(from[i]);
        settle(to, dxs + at, size);
      });
    });
  });
}

}  // namespace plait::kernels
