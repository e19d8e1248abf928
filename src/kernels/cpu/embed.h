// Rows of a table looked up by token id. The table may be a slice of the vocabulary: it holds ids [first, first + v),
// other ids give rows of zeros, so that the sum over slices is the whole lookup.
#pragma once
#include <ATen/core/Tensor.h>

namespace plait::kernels {

void embed(const at::Tensor& table_vD, const at::Tensor& ids_T, int64_t first, const at::Tensor& y_TD);

// Overwrites dtable; rows that no id names are zero. Rows of the same id are added in token order.
void embed_grad(const at::Tensor& dy_TD, const at::Tensor& ids_T, int64_t first, const at::Tensor& dtable_vD);

}  // namespace plait::kernels
