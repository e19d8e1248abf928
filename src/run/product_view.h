// An einsum as the matrix product that a rank performs: which operand is which, as what matrices they are seen.
#pragma once
#include "kernels/cpu/gemm.h"
#include "run/call.h"

namespace plait {

struct ProductView {
  kernels::Layout layout;
  size_t a = 0, b = 1;  // operands of the einsum
  int64_t batch = 1;
  std::vector<int64_t> view_a, view_b, view_out;  // without the batch; -1: the number of rows
  std::vector<int64_t> out;                       // shape of the result; dim 0 is -1 where it is the number of rows
};

ProductView product_view(const Einsum& op, const StepTypes& types);

// Rows of each local expert from a table [e, cells..], of one chunk where there are several.
std::vector<int64_t> expert_rows(const at::Tensor& table, int64_t experts);

// x seen as `shape`, -1 replaced by the rows, with `batch` in front unless it is 0.
at::Tensor view_as(const at::Tensor& x, std::vector<int64_t> shape, int64_t batch, int64_t rows);

}  // namespace plait
