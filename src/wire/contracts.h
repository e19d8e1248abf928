// What every wire demands of the arguments of a collective, O(1) or O(members). ContractError when broken.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace plait::wire {

// Bytes of one row (a slice along dim 0); right also when there is no row.
int64_t row_bytes(const at::Tensor& rows);

void check_all_reduce(std::span<const at::Tensor> values);
void check_all_gather(const at::Tensor& in, const at::Tensor& out, int num_members);
void check_reduce_scatter(const at::Tensor& in, const at::Tensor& out, int num_members);
void check_all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows, int member);
void check_reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows, int member);
void check_all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                      std::span<const int64_t> receive_rows);
void check_broadcast(const at::Tensor& value, int root, int num_members);

}  // namespace plait::wire
