// Einsums as matrix products: plain, batched, or one per expert over rows sorted by expert.
#include "base/errors.h"
#include "kernels/cpu/products.h"
#include "run/kernels.h"
#include "run/product_view.h"
#include "schedule/contraction.h"

namespace plait {
namespace {

using kernels::Layout;
using Shape = std::vector<int64_t>;

// The product of the local sizes of some labels, -1 (to be inferred) where one of them is jagged.
int64_t extent(const StepTypes& t, const Type& type, const std::vector<std::string>& labels) {
  int64_t n = 1;
  for (const std::string& label : labels) {
    const Dim& dim = *type.find(label);
    if (dim.jagged()) return -1;
    n *= local_size(t.mesh, dim);
  }
  return n;
}

Layout layout(const Contraction& c) {
  expects(!(c.a_transposed && c.b_transposed), "einsum: both operands transposed: swap them in the schedule");
  return c.a_transposed ? Layout::tn : c.b_transposed ? Layout::nt : Layout::nn;
}

// [R, ..] for rows, else the local shape.
Shape shape_of(const StepTypes& t, const Type& type) {
  const int j = type.jagged_index();
  Shape shape = t.shape(type);
  if (j < 0) return shape;
  shape.erase(shape.begin(), shape.begin() + j);
  shape[0] = -1;
  return shape;
}

}  // namespace

ProductView product_view(const Einsum& op, const StepTypes& t) {
  const Type *a = t.in[0], *b = t.in[1];
  const Contraction c = *contraction(a->dim_names(), b->dim_names(), op.out);
  ProductView p{.layout = layout(c)};
  if (c.swapped) {
    std::swap(p.a, p.b);
    std::swap(a, b);
  }
  const int64_t rows = extent(t, *a, c.row), columns = extent(t, *b, c.column), sum = extent(t, *a, c.sum);
  p.batch = extent(t, *a, c.batch);
  p.view_a = c.a_transposed ? Shape{sum, rows} : Shape{rows, sum};
  p.view_b = c.b_transposed ? Shape{columns, sum} : Shape{sum, columns};
  p.view_out = {rows, columns};
  p.out = shape_of(t, *t.out[0]);
  return p;
}

// With no elements -1 cannot be inferred, so it is worked out from the rows.
at::Tensor view_as(const at::Tensor& x, Shape shape, int64_t batch, int64_t rows) {
  for (int64_t& n : shape)
    if (n < 0) n = rows;
  if (batch > 0) shape.insert(shape.begin(), batch);
  return x.view(shape);
}

std::vector<int64_t> expert_rows(const at::Tensor& table, int64_t experts) {
  const int64_t cells = table.numel() / experts;
  const int64_t* counts = table.const_data_ptr<int64_t>();
  std::vector<int64_t> rows(experts, 0);
  for (int64_t i = 0; i < experts * cells; ++i) rows[i / cells] += counts[i];
  return rows;
}

namespace {

at::Tensor make(Call& call, Shape shape, int64_t rows) {
  if (!shape.empty() && shape[0] < 0) shape[0] = rows;
  return call.make(0, shape, call.in(0).scalar_type());
}

Kernel grouped(const ProductView& p) {
  return [p](Call& call) {
    const std::vector<int64_t> rows = expert_rows(call.in(2), p.batch);
    const bool sums = p.layout == Layout::tn;
    const int64_t total = call.in(p.a).size(0);
    const at::Tensor out = make(call, p.out, total);
    const at::Tensor a = view_as(call.in(p.a), p.view_a, 0, total);
    const at::Tensor b = view_as(call.in(p.b), p.view_b, sums ? 0 : p.batch, total);
    kernels::grouped({.a = a, .b = b, .row_counts = rows, .out = view_as(out, p.view_out, sums ? p.batch : 0, total)},
                     p.layout);
  };
}

}  // namespace

Kernel prepare(const Einsum& op, const StepTypes& types) {
  const ProductView p = product_view(op, types);
  if (types.in.size() == 3) return grouped(p);
  const bool batched = p.batch != 1;
  return [p, batched](Call& call) {
    const int64_t rows = call.in(p.a).dim() ? call.in(p.a).size(0) : 1;  // used where a dim is jagged
    const at::Tensor out = make(call, p.out, rows);
    const int64_t batch = batched ? p.batch : 0;
    const at::Tensor a = view_as(call.in(p.a), p.view_a, batch, rows), b = view_as(call.in(p.b), p.view_b, batch, rows),
                     c = view_as(out, p.view_out, batch, rows);
    batched ? kernels::bmm(a, b, p.layout, c) : kernels::matmul(a, b, p.layout, c);
  };
}

}  // namespace plait
