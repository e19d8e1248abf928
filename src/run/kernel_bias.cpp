// Glue between biases and their kernels: of the last dims, or of the expert of each row.
#include <functional>

#include "kernels/cpu/token_gate.h"
#include "run/kernels.h"
#include "run/product_view.h"
#include "schedule/typing.h"

namespace plait {
namespace {

// [.., n] as [T, n].
at::Tensor rows_of(const at::Tensor& x, int64_t n) { return x.view({n ? x.numel() / n : 0, n}); }

// Calls body(expert, first row, rows) with the rows of each local expert, which lie one after the other: as the table,
// operand `table`, counts them, or as many of each.
void each_expert(const Call& call, size_t table, int64_t experts,
                 const std::function<void(int64_t, int64_t, int64_t)>& body) {
  const int64_t width = call.in(0).size(-1), all = width ? call.in(0).numel() / width : 0;
  const std::vector<int64_t> rows =
      call.num_in() > table ? expert_rows(call.in(table), experts) : std::vector<int64_t>(experts, all / experts);
  for (int64_t e = 0, first = 0; e < experts; first += rows[e++]) body(e, first, rows[e]);
}

Kernel add_of_experts(int64_t experts) {
  return [experts](Call& call) {
    const at::Tensor b = call.in(1), y = call.make_over(0, 0);
    const at::Tensor from = rows_of(call.in(0), b.size(1)), to = rows_of(y, b.size(1));
    each_expert(call, 2, experts, [&](int64_t e, int64_t first, int64_t rows) {
      kernels::add_bias(from.narrow(0, first, rows), b[e], to.narrow(0, first, rows));
    });
  };
}

}  // namespace

Kernel prepare(const AddBias&, const StepTypes& types) {
  const Type& bias = *types.in[1];
  if (bias_of_experts(*types.in[0], bias.dim_names())) return add_of_experts(types.shape(bias)[0]);
  return [](Call& call) {
    const at::Tensor x = call.in(0), b = call.in(1).view({-1}), y = call.make_over(0, 0);
    kernels::add_bias(rows_of(x, b.numel()), b, rows_of(y, b.numel()));
  };
}

Kernel prepare(const BiasGrad& op, const StepTypes& types) {
  const std::vector<int64_t> shape = types.shape(*types.out[0]);
  const bool of_experts = bias_of_experts(*types.in[0], op.dims);
  return [shape, of_experts, full = types.scalar(*types.out[0])](Call& call) {
    const at::Tensor db = call.make(0, shape, full);
    if (!of_experts) return kernels::bias_grad(rows_of(call.in(0), db.numel()), db.view({-1}));
    const at::Tensor dy = rows_of(call.in(0), shape[1]);
    each_expert(call, 1, shape[0],
                [&](int64_t e, int64_t first, int64_t rows) { kernels::bias_grad(dy.narrow(0, first, rows), db[e]); });
  };
}

}  // namespace plait
