#include "bench/products.h"

#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include "kernels/cpu/products.h"
#include "run/product_view.h"

namespace plait {
namespace {

using kernels::Layout;

constexpr kernels::Into kInto = kernels::Into::overwrite;
constexpr int64_t kBlock = 64;  // query rows at a time, as in ops/attention

// Operands of equal shape and place share memory, which favours the products: more of it is in the caches.
struct Operands {
  Layout layout;
  at::Tensor a, b, out;
  std::vector<int64_t> rows;  // per expert; empty: one product, or a batch
};

void with_own(const Operands& p) {
  if (!p.rows.empty()) return kernels::grouped({.a = p.a, .b = p.b, .row_counts = p.rows, .out = p.out}, p.layout);
  p.out.dim() == 3 ? kernels::bmm(p.a, p.b, p.layout, p.out) : kernels::matmul(p.a, p.b, p.layout, p.out);
}

at::Tensor turned(const at::Tensor& x, bool value) { return value ? x.transpose(-1, -2) : x; }

void one_with_aten(const Operands& p) {
  const at::Tensor a = turned(p.a, p.layout == Layout::tn), b = turned(p.b, p.layout == Layout::nt);
  at::Tensor out = p.out;
  out.dim() == 3 ? at::bmm_out(out, a, b) : at::mm_out(out, a, b);
}

void with_aten(const Operands& p) {
  if (p.rows.empty()) return one_with_aten(p);
  int64_t at = 0;
  for (size_t e = 0; e < p.rows.size(); ++e) {
    const int64_t n = p.rows[e], expert = static_cast<int64_t>(e);
    const bool sums = p.layout == Layout::tn;
    one_with_aten({p.layout,
                   p.a.narrow(0, at, n),
                   sums ? p.b.narrow(0, at, n) : p.b[expert],
                   sums ? p.out[expert] : p.out.narrow(0, at, n),
                   {}});
    at += n;
  }
}

double flops_of(const Operands& p) {
  const int64_t m = p.out.size(-2), n = p.out.size(-1), k = p.a.size(p.layout == Layout::tn ? -2 : -1);
  const int64_t batch = p.rows.empty() && p.out.dim() == 3 ? p.out.size(0) : 1;
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Attention's products as its kernel cuts them: for 64 query rows the keys up to the last of them. Forward makes the
// first two passes, backward all five.
struct Squares {
  at::Tensor q_BSHA, k_BSJA;
  at::Tensor out_BSHA;  // whatever does not go to the scores
  at::Tensor score;     // one [64, S] for each thread

  int64_t positions() const { return q_BSHA.size(1); }
  int64_t items() const { return q_BSHA.size(0) * q_BSHA.size(2); }
};

enum class Pass { q_k, p_v, p_do, do_v, ds_q };

template <class T>
void squares_of_head(const Squares& s, int64_t item, int passes) {
  const int64_t heads = s.q_BSHA.size(2), kv = s.k_BSJA.size(2), size = s.q_BSHA.size(3), S = s.positions();
  const int64_t b = item / heads, h = item % heads, row = heads * size, kv_row = kv * size;
  const T* q = s.q_BSHA.const_data_ptr<T>() + (b * S * heads + h) * size;
  const T* k = s.k_BSJA.const_data_ptr<T>() + (b * S * kv + h / (heads / kv)) * size;
  T* out = s.out_BSHA.mutable_data_ptr<T>() + (b * S * heads + h) * size;
  T* score = s.score.mutable_data_ptr<T>() + at::get_thread_num() * kBlock * S;
  for (int64_t begin = 0; begin < S; begin += kBlock) {
    const int64_t rows = std::min(kBlock, S - begin), end = begin + rows;
    for (int pass = 0; pass < passes; ++pass) {
      switch (static_cast<Pass>(pass)) {
        case Pass::q_k:
        case Pass::do_v:
          kernels::gemm<T>({q + begin * row, row, k, kv_row, score, end, rows, end, size}, Layout::nt, kInto);
          break;
        case Pass::p_v:
          kernels::gemm<T>({score, end, k, kv_row, out + begin * row, row, rows, size, end}, Layout::nn, kInto);
          break;
        case Pass::p_do:
        case Pass::ds_q:
          kernels::gemm<T>({score, end, q + begin * row, row, out, row, end, size, rows}, Layout::tn, kInto);
      }
    }
  }
}

double causal_flops(const Squares& s, int passes) {
  double seen = 0;
  for (int64_t begin = 0; begin < s.positions(); begin += kBlock) {
    const int64_t end = std::min(s.positions(), begin + kBlock);
    seen += static_cast<double>((end - begin) * end);
  }
  return 2.0 * seen * static_cast<double>(s.items() * s.q_BSHA.size(3)) * passes;
}

}  // namespace

// A run of 2 bytes is compared with the products of float32.
StepProducts::StepProducts(const Executor& executor, RankContext context) : dtype_(full_precision(context.dtype)) {
  const Schedule& s = executor.schedule();
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const Step& step = s.steps[i];
    StepTypes types{s.mesh, context.rank, {}, {}, context.dtype};
    for (ValueId v : step.in) types.in.push_back(&executor.types()[v]);
    for (ValueId v : step.out) types.out.push_back(&executor.types()[v]);
    const bool repeated = s.repeat && static_cast<int>(i) >= s.repeat->first && static_cast<int>(i) < s.repeat->last;
    times_ = repeated ? s.repeat->times : 1;
    if (as<Einsum>(step.op)) add_product(step, types, executor);
    if (as<Attention>(step.op)) add_attention(*types.in[0], *types.in[1], types, 2);
    if (as<AttentionGrad>(step.op)) add_attention(*types.in[0], *types.in[1], types, 5);
  }
}

at::Tensor StepProducts::memory(at::IntArrayRef shape, const char* place) {
  const int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  at::Tensor& block = memory_[{place, size}];
  if (!block.defined()) block = at::empty({size}, dtype_).fill_(1e-3);
  return block.view(shape);
}

void StepProducts::add_product(const Step& step, const StepTypes& types, const Executor& executor) {
  const ProductView p = product_view(*as<Einsum>(step.op), types);
  Operands o{.layout = p.layout};
  if (step.in.size() == 3) o.rows = expert_rows(executor.value(step.in[2]), p.batch);
  const int64_t rows = std::accumulate(o.rows.begin(), o.rows.end(), int64_t{0});
  const bool grouped = !o.rows.empty(), sums = p.layout == Layout::tn;
  const auto matrix = [&](std::vector<int64_t> shape, int64_t batch, const char* place) {
    for (int64_t& n : shape)
      if (n < 0) n = rows;
    if (batch > 0) shape.insert(shape.begin(), batch);
    return memory(shape, place);
  };
  const int64_t batch = grouped || p.batch > 1 ? p.batch : 0;
  o.a = matrix(p.view_a, grouped ? 0 : batch, "a");
  o.b = matrix(p.view_b, grouped && sums ? 0 : batch, "b");
  o.out = matrix(p.view_out, grouped && !sums ? 0 : batch, "out");
  products_.push_back({flops_of(o), times_, [o] { with_own(o); }, [o] { with_aten(o); }});
}

void StepProducts::add_attention(const Type& q, const Type& k, const StepTypes& types, int passes) {
  const int64_t S = q.find("S")->size;
  Squares s{memory(types.shape(q), "q"), memory(types.shape(k), "k"), memory(types.shape(q), "out"),
            memory({at::get_num_threads(), kBlock, S}, "score")};
  const auto own = [s, passes] {
    at::parallel_for(0, s.items(), 1, [&](int64_t first, int64_t last) {
      for (int64_t item = first; item < last; ++item)
        s.q_BSHA.scalar_type() == at::kFloat ? squares_of_head<float>(s, item, passes)
                                             : squares_of_head<double>(s, item, passes);
    });
  };
  const int64_t size = q.find("A")->size;
  const Operands square{Layout::nt,
                        memory({s.items(), S, size}, "a"),
                        memory({s.items(), S, size}, "b"),
                        memory({s.items(), S, S}, "out"),
                        {}};
  const Operands narrow{Layout::nn, square.out, square.a, memory({s.items(), S, size}, "out"), {}};
  const auto aten = [square, narrow, passes] {
    for (int pass = 0; pass < passes; ++pass) one_with_aten(pass == 0 || pass == 3 ? square : narrow);
  };
  products_.push_back({causal_flops(s, passes), times_, own, aten});
}

void StepProducts::choose(int tries) {
  for (Product& p : products_) {
    double own = std::numeric_limits<double>::infinity(), aten = own;
    for (int i = 0; i < tries; ++i) {
      own = std::min(own, seconds(p.own));
      aten = std::min(aten, seconds(p.aten));
    }
    p.with_aten = aten < own;
  }
}

void StepProducts::run() const {
  for (const Product& p : products_)
    for (int i = 0; i < p.times; ++i) (p.with_aten ? p.aten : p.own)();
}

double StepProducts::flops() const {
  double sum = 0;
  for (const Product& p : products_) sum += p.flops * p.times;
  return sum;
}

double StepProducts::of_own() const {
  double sum = 0;
  for (const Product& p : products_) sum += p.with_aten ? 0 : p.flops * p.times;
  return sum / flops();
}

std::vector<ValueId> product_tables(const Schedule& schedule) {
  std::vector<ValueId> tables;
  for (const Step& step : schedule.steps)
    if (as<Einsum>(step.op) && step.in.size() == 3) tables.push_back(step.in[2]);
  return tables;
}

}  // namespace plait
