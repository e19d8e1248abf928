// Element-wise ops, shapes, norm, positions, attention and the ops after the gradients.
#include <cmath>

#include "base/errors.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {
namespace {

void copy(const Array& from, Array& to) {
  expects(from.size() == to.size(), "a copy keeps the number of elements");
  to.data = from.data;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double activate(Act act, double x) {
  if (act == Act::relu) return x > 0 ? x : 0;
  if (act == Act::silu) return x * sigmoid(x);
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

double slope(Act act, double x) {
  if (act == Act::relu) return x > 0 ? 1 : 0;
  if (act == Act::silu) return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

}  // namespace

void compute(const Call& c, const Add&) {
  for (const Array* x : c.in) add_to(c.y(), *x);
}
void compute(const Call& c, const Accumulate&) { compute(c, Add{}); }

void compute(const Call& c, const Scale& op) {
  for (int64_t i = 0; i < c.y().size(); ++i) c.y()[i] = op.factor * c.x(0)[i];
}

void compute(const Call& c, const Split& op) {
  for (int i = 0; i < op.parts; ++i) c.y(i) = chunk(c.x(0), array_dim(c.type(0), op.dim), op.parts, i);
}

void compute(const Call& c, const Concat& op) { c.y() = concat(c.in, array_dim(c.type(0), op.dim)); }
void compute(const Call& c, const Dup& op) { compute(c, Scale{op.scale}); }
void compute(const Call& c, const Pick& op) { compute(c, Scale{op.scale}); }
void compute(const Call& c, const Cast&) { copy(c.x(0), c.y()); }
void compute(const Call& c, const Unflatten&) { copy(c.x(0), c.y()); }
void compute(const Call& c, const Flatten&) { copy(c.x(0), c.y()); }

void compute(const Call& c, const Pack&) { std::copy(c.x(0).data.begin(), c.x(0).data.end(), c.y().data.begin()); }
void compute(const Call& c, const Unpack&) { std::copy_n(c.x(0).data.begin(), c.y().size(), c.y().data.begin()); }

void compute(const Call& c, const Activate& op) {
  const Array& x = c.x(0);
  const int64_t f = x.shape.back();
  for (int64_t i = 0; i < c.y().size(); ++i) {
    if (!op.glu)
      c.y()[i] = activate(op.act, x[i]);
    else
      c.y()[i] = activate(op.act, x[i / f * 2 * f + i % f]) * x[i / f * 2 * f + f + i % f];
  }
}

void compute(const Call& c, const ActivateGrad& op) {
  const Array &x = c.x(0), &dy = c.x(1);
  const int64_t f = x.shape.back();
  for (int64_t i = 0; i < dy.size(); ++i) {
    if (!op.glu) {
      c.y()[i] = dy[i] * slope(op.act, x[i]);
      continue;
    }
    const int64_t gate = i / f * 2 * f + i % f, up = gate + f;
    c.y()[gate] = dy[i] * slope(op.act, x[gate]) * x[up];
    c.y()[up] = dy[i] * activate(op.act, x[gate]);
  }
}

namespace {

// 1 / sqrt(mean(x^2) + eps) of a row
double row_scale(const Array& x, int64_t first, double eps) {
  const int64_t d = x.shape.back();
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) sum += x[first + i] * x[first + i];
  return 1 / std::sqrt(sum / static_cast<double>(d) + eps);
}

}  // namespace

void compute(const Call& c, const RmsNorm& op) {
  const int64_t d = c.x(0).shape.back();
  for (int64_t row = 0; row < c.x(0).size(); row += d) {
    const double scale = row_scale(c.x(0), row, op.eps);
    for (int64_t i = 0; i < d; ++i) c.y()[row + i] = c.x(0)[row + i] * scale * c.x(1)[i];
  }
}

void compute(const Call& c, const RmsNormGrad& op) {
  const Array &x = c.x(0), &gain = c.x(1), &dy = c.x(2);
  const int64_t d = x.shape.back();
  for (int64_t row = 0; row < x.size(); row += d) {
    const double scale = row_scale(x, row, op.eps);
    double inner = 0;
    for (int64_t i = 0; i < d; ++i) {
      inner += dy[row + i] * gain[i] * x[row + i];
      c.y(1)[i] += dy[row + i] * x[row + i] * scale;
    }
    const double pull = inner * scale * scale * scale / static_cast<double>(d);
    for (int64_t i = 0; i < d; ++i) c.y(0)[row + i] = dy[row + i] * gain[i] * scale - x[row + i] * pull;
  }
}

void compute(const Call& c, const Rope& op) {
  const Array& x = c.x(0);
  const int64_t positions = x.shape[1], heads = x.shape[2], a = x.shape[3], half = a / 2;
  for (int64_t row = 0; row < x.size() / a; ++row) {
    const auto position = static_cast<double>(row / heads % positions);
    for (int64_t i = 0; i < half; ++i) {
      const double angle = position * std::pow(op.theta, -2.0 * static_cast<double>(i) / static_cast<double>(a));
      const double cosine = std::cos(angle),
                   sine = op.direction == Direction::forward ? std::sin(angle) : -std::sin(angle);
      const double low = x[row * a + i], high = x[row * a + half + i];
      c.y()[row * a + i] = low * cosine - high * sine;
      c.y()[row * a + half + i] = high * cosine + low * sine;
    }
  }
}

namespace {

// Sizes and places of attention's operands.
struct Heads {
  int64_t B, S, H, J, A;
  explicit Heads(const Call& c)
      : B(c.x(0).shape[0]), S(c.x(0).shape[1]), H(c.x(0).shape[2]), J(c.x(1).shape[2]), A(c.x(0).shape[3]) {}
  int64_t q(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * H + h) * A; }
  int64_t kv(int64_t b, int64_t s, int64_t h) const { return ((b * S + s) * J + h / (H / J)) * A; }
  double score(const Call& c, int64_t q, int64_t k) const {
    double sum = 0;
    for (int64_t a = 0; a < A; ++a) sum += c.x(0)[q + a] * c.x(1)[k + a];
    return sum / std::sqrt(static_cast<double>(A));
  }
  void each_row(auto&& f) const {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t s = 0; s < S; ++s) f(b, h, s);
  }
};

}  // namespace

void compute(const Call& c, const Attention&) {
  const Heads n(c);
  n.each_row([&](int64_t b, int64_t h, int64_t s) {
    const int64_t q = n.q(b, s, h);
    double sum = 0;
    for (int64_t t = 0; t <= s; ++t) {
      const double e = std::exp(n.score(c, q, n.kv(b, t, h)));
      sum += e;
      for (int64_t a = 0; a < n.A; ++a) c.y(0)[q + a] += e * c.x(2)[n.kv(b, t, h) + a];
    }
    for (int64_t a = 0; a < n.A; ++a) c.y(0)[q + a] /= sum;
    c.y(1)[(b * n.H + h) * n.S + s] = std::log(sum);
  });
}

void compute(const Call& c, const AttentionGrad&) {
  const Heads n(c);
  const Array &o = c.x(3), &lse = c.x(4), &dout = c.x(5);
  const double scale = 1 / std::sqrt(static_cast<double>(n.A));
  n.each_row([&](int64_t b, int64_t h, int64_t s) {
    const int64_t q = n.q(b, s, h);
    for (int64_t t = 0; t <= s; ++t) {
      const int64_t kv = n.kv(b, t, h);
      const double p = std::exp(n.score(c, q, kv) - lse[(b * n.H + h) * n.S + s]);
      double dp = 0;
      for (int64_t a = 0; a < n.A; ++a) dp += dout[q + a] * (c.x(2)[kv + a] - o[q + a]);
      for (int64_t a = 0; a < n.A; ++a) {
        c.y(0)[q + a] += p * dp * scale * c.x(1)[kv + a];
        c.y(1)[kv + a] += p * dp * scale * c.x(0)[q + a];
        c.y(2)[kv + a] += p * dout[q + a];
      }
    }
  });
}

void compute(const Call& c, const SumSquares&) {
  for (const Array* x : c.in)
    for (double v : x->data) c.y()[0] += v * v;
}

void compute(const Call& c, const ClipFactor& op) {
  c.y(0)[0] = std::sqrt(c.x(0)[0]);
  c.y(1)[0] = op.clip == 0 ? 1 : std::min(1.0, op.clip / (c.y(0)[0] + 1e-6));
}

void compute(const Call& c, const AdamW& op) {
  const double factor = c.x(4)[0], lr = c.x(5)[0], step = c.x(6)[0];
  for (int64_t i = 0; i < c.y().size(); ++i) {
    const double g = factor * c.x(1)[i];
    const double m = op.beta1 * c.x(2)[i] + (1 - op.beta1) * g, v = op.beta2 * c.x(3)[i] + (1 - op.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(op.beta1, step)), v_hat = v / (1 - std::pow(op.beta2, step));
    c.y(0)[i] = c.x(0)[i] - lr * (m_hat / (std::sqrt(v_hat) + op.eps) + op.weight_decay * c.x(0)[i]);
    c.y(1)[i] = m;
    c.y(2)[i] = v;
  }
}

void compute(const Call& c, const Sgd& op) {
  for (int64_t i = 0; i < c.y().size(); ++i)
    c.y()[i] = c.x(0)[i] - c.x(3)[0] * (c.x(2)[0] * c.x(1)[i] + op.weight_decay * c.x(0)[i]);
}

}  // namespace plait::oracle
