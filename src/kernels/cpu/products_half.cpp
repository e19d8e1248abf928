#include "kernels/cpu/products_half.h"

#include <ATen/ops/mm.h>

#include <vector>

#include "kernels/cpu/kernel.h"

namespace plait::kernels {
namespace {

#if defined(__AVX512BF16__)
constexpr bool kMultipliesBFloat16 = true;
#else
constexpr bool kMultipliesBFloat16 = false;
#endif

// Elements of a block: of the result [kRows, kColumns], of the sum kDepth at a time.
constexpr int64_t kRows = 256, kColumns = 1024, kDepth = 1024;

struct Block {
  int64_t row, rows, column, columns;
};

// Rows [row, row + rows) x columns [column, column + columns) of x, as float32.
template <class T>
void widen_block(const at::Tensor& x, const Block& b, std::vector<float>& to) {
  to.resize(b.rows * b.columns);
  const T* from = x.const_data_ptr<T>() + b.row * x.stride(0) + b.column;
  for (int64_t r = 0; r < b.rows; ++r) widen(from + r * x.stride(0), to.data() + r * b.columns, b.columns);
}

// One block of the result on one thread.
template <class T>
class BlockProduct {
 public:
  BlockProduct(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out)
      : a_(a), b_(b), out_(out), layout_(layout), depth_(a.size(layout == Layout::tn ? 0 : 1)) {}

  void operator()(const Block& block) {
    sums_.assign(block.rows * block.columns, 0.f);
    for (int64_t k = 0; k < depth_; k += kDepth) add(block, k, std::min(kDepth, depth_ - k));
    T* to = out_.mutable_data_ptr<T>() + block.row * out_.stride(0) + block.column;
    for (int64_t r = 0; r < block.rows; ++r)
      narrow(sums_.data() + r * block.columns, to + r * out_.stride(0), block.columns);
  }

 private:
  void add(const Block& block, int64_t k, int64_t depth) {
    const bool tn = layout_ == Layout::tn, nt = layout_ == Layout::nt;
    widen_block<T>(a_, tn ? Block{k, depth, block.row, block.rows} : Block{block.row, block.rows, k, depth}, wide_a_);
    widen_block<T>(b_, nt ? Block{block.column, block.columns, k, depth} : Block{k, depth, block.column, block.columns},
                   wide_b_);
    gemm<float>({.a = wide_a_.data(),
                 .lda = tn ? block.rows : depth,
                 .b = wide_b_.data(),
                 .ldb = nt ? depth : block.columns,
                 .c = sums_.data(),
                 .ldc = block.columns,
                 .m = block.rows,
                 .n = block.columns,
                 .k = depth},
                layout_, Into::accumulate);
  }

  const at::Tensor &a_, &b_, &out_;
  Layout layout_;
  int64_t depth_;
  std::vector<float> wide_a_, wide_b_, sums_;
};

}  // namespace

void half_matmul(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out, Into into) {
  expects(into == Into::overwrite, "products of 2 bytes do not accumulate");
  if (out.numel() == 0) return;
  if (a.numel() == 0) return void(out.zero_());
  if (kMultipliesBFloat16 && out.scalar_type() == at::kBFloat16) {
    at::Tensor to = out;
    return void(at::mm_out(to, layout == Layout::tn ? a.t() : a, layout == Layout::nt ? b.t() : b));
  }
  const int64_t m = out.size(0), n = out.size(1), across = (n + kColumns - 1) / kColumns;
  by_element(out, [&]<class T>(T) {
    if constexpr (kIsHalf<T>)
      at::parallel_for(0, (m + kRows - 1) / kRows * across, 1, [&](int64_t first, int64_t last) {
        BlockProduct<T> product(a, b, layout, out);
        for (int64_t i = first; i < last; ++i) {
          const int64_t row = i / across * kRows, column = i % across * kColumns;
          product({row, std::min(kRows, m - row), column, std::min(kColumns, n - column)});
        }
      });
  });
}

}  // namespace plait::kernels
