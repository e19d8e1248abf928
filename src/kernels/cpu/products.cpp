#include "kernels/cpu/products.h"

#include <numeric>
#include <vector>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/products_half.h"

namespace plait::kernels {
namespace {

// The matrix in the last two dims of x; a batch item or an expert is `item` of the dim in front.
template <class T>
T* matrix(const at::Tensor& x, int64_t item = 0) {
  expects(x.size(-1) <= 1 || x.stride(-1) == 1, "a product takes matrices whose columns lie together");
  return static_cast<T*>(x.data_ptr()) + (x.dim() == 3 ? item * x.stride(0) : 0);
}

// Rows of zero or one length have any stride; a product of one row never uses it.
int64_t row_stride(const at::Tensor& x) { return x.stride(-2); }

void expects_shapes(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out) {
  int64_t m = a.size(layout == Layout::tn ? -1 : -2), k = a.size(layout == Layout::tn ? -2 : -1);
  int64_t n = b.size(layout == Layout::nt ? -2 : -1), b_k = b.size(layout == Layout::nt ? -1 : -2);
  expects(k == b_k, "product: the summed dims of a and b differ");
  expects(out.size(-2) == m && out.size(-1) == n, "product: out has another shape than a b");
}

void expects_types(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  expects(a.scalar_type() == b.scalar_type() && a.scalar_type() == out.scalar_type(),
          "product: a, b and out have one element type");
}

template <class T>
Gemm<T> whole(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out, int64_t item) {
  return {.a = matrix<T>(a, item),
          .lda = row_stride(a),
          .b = matrix<T>(b, item),
          .ldb = row_stride(b),
          .c = matrix<T>(out, item),
          .ldc = row_stride(out),
          .m = out.size(-2),
          .n = out.size(-1),
          .k = a.size(layout == Layout::tn ? -2 : -1)};
}

// The product of one expert whose rows begin at `row`.
template <class T>
Gemm<T> of_expert(const Grouped& g, Layout layout, int64_t expert, int64_t row) {
  int64_t count = g.row_counts[expert];
  const T* a = matrix<T>(g.a) + row * row_stride(g.a);
  if (layout == Layout::tn)
    return {.a = a,
            .lda = row_stride(g.a),
            .b = matrix<T>(g.b) + row * row_stride(g.b),
            .ldb = row_stride(g.b),
            .c = matrix<T>(g.out, expert),
            .ldc = row_stride(g.out),
            .m = g.out.size(1),
            .n = g.out.size(2),
            .k = count};
  return {.a = a,
          .lda = row_stride(g.a),
          .b = matrix<T>(g.b, expert),
          .ldb = row_stride(g.b),
          .c = matrix<T>(g.out) + row * row_stride(g.out),
          .ldc = row_stride(g.out),
          .m = count,
          .n = g.out.size(1),
          .k = g.a.size(1)};
}

void expects_grouped(const Grouped& g, Layout layout) {
  bool turned = layout == Layout::tn;
  int64_t experts = (turned ? g.out : g.b).size(0);
  expects(static_cast<int64_t>(g.row_counts.size()) == experts, "grouped: one row count per expert");
  int64_t rows = std::accumulate(g.row_counts.begin(), g.row_counts.end(), int64_t{0});
  expects(rows == g.a.size(0) && rows == (turned ? g.b : g.out).size(0), "grouped: the counts do not sum to the rows");
  if (turned) return expects_shapes(g.a, g.b, layout, g.out);
  int64_t k = g.b.size(layout == Layout::nt ? 2 : 1), n = g.b.size(layout == Layout::nt ? 1 : 2);
  expects(g.a.size(1) == k && g.out.size(1) == n, "grouped: a, b and out do not fit");
}

// One product an expert, of the narrow views that `of_expert` addresses.
void half_grouped(const Grouped& g, Layout layout, Into into) {
  const bool turned = layout == Layout::tn;
  int64_t row = 0;
  for (size_t e = 0; e < g.row_counts.size(); ++e) {
    const int64_t count = g.row_counts[e], expert = static_cast<int64_t>(e);
    const at::Tensor a = g.a.narrow(0, row, count), b = turned ? g.b.narrow(0, row, count) : g.b[expert],
                     out = turned ? g.out[expert] : g.out.narrow(0, row, count);
    half_matmul(a, b, layout, out, into);
    row += count;
  }
}

}  // namespace

void matmul(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out, Into into) {
  expects(a.dim() == 2 && b.dim() == 2 && out.dim() == 2, "matmul takes matrices");
  expects_types(a, b, out);
  expects_shapes(a, b, layout, out);
  if (out.element_size() == 2) return half_matmul(a, b, layout, out, into);
  by_dtype(out, [&]<class T>(T) {
    Gemm<T> product = whole<T>(a, b, layout, out, 0);
    gemm_all<T>({&product, 1}, layout, into);
  });
}

void bmm(const at::Tensor& a, const at::Tensor& b, Layout layout, const at::Tensor& out, Into into) {
  expects(a.dim() == 3 && b.dim() == 3 && out.dim() == 3, "bmm takes batches of matrices");
  expects(a.size(0) == out.size(0) && b.size(0) == out.size(0), "bmm: the batches differ");
  expects_types(a, b, out);
  expects_shapes(a, b, layout, out);
  if (out.element_size() == 2) {
    for (int64_t item = 0; item < out.size(0); ++item) half_matmul(a[item], b[item], layout, out[item], into);
    return;
  }
  by_dtype(out, [&]<class T>(T) {
    std::vector<Gemm<T>> products;
    for (int64_t item = 0; item < out.size(0); ++item) products.push_back(whole<T>(a, b, layout, out, item));
    gemm_all<T>(products, layout, into);
  });
}

void grouped(const Grouped& g, Layout layout, Into into) {
  expects_types(g.a, g.b, g.out);
  expects_grouped(g, layout);
  if (g.out.element_size() == 2) return half_grouped(g, layout, into);
  by_dtype(g.out, [&]<class T>(T) {
    std::vector<Gemm<T>> products;
    int64_t row = 0;
    for (size_t e = 0; e < g.row_counts.size(); ++e) {
      products.push_back(of_expert<T>(g, layout, static_cast<int64_t>(e), row));
      row += g.row_counts[e];
    }
    gemm_all<T>(products, layout, into);
  });
}

}  // namespace plait::kernels
