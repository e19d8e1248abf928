#include "wire/contracts.h"

#include <numeric>

#include "base/errors.h"

namespace plait::wire {
namespace {

void check_dense(const at::Tensor& value, const char* what) {
  expects(value.defined() && value.is_contiguous() && value.device().is_cpu(), what);
}

void check_summable(const at::Tensor& value, const char* what) {
  const auto type = value.scalar_type();
  expects(at::isFloatingType(type) || type == at::kLong, what);
}

int64_t total(std::span<const int64_t> rows) { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }

}  // namespace

int64_t row_bytes(const at::Tensor& rows) {
  int64_t bytes = rows.element_size();
  for (int64_t d = 1; d < rows.dim(); ++d) bytes *= rows.size(d);
  return bytes;
}

void check_all_reduce(std::span<const at::Tensor> values) {
  for (const auto& value : values) {
    check_dense(value, "all_reduce: a value is not a contiguous CPU tensor");
    check_summable(value, "all_reduce: sums real numbers and int64 only");
  }
}

void check_all_gather(const at::Tensor& in, const at::Tensor& out, int num_members) {
  check_dense(in, "all_gather: in is not a contiguous CPU tensor");
  check_dense(out, "all_gather: out is not a contiguous CPU tensor");
  expects(in.scalar_type() == out.scalar_type(), "all_gather: in and out differ in type");
  expects(out.numel() == num_members * in.numel(), "all_gather: out is not [members, in...]");
}

void check_reduce_scatter(const at::Tensor& in, const at::Tensor& out, int num_members) {
  check_dense(in, "reduce_scatter: in is not a contiguous CPU tensor");
  check_dense(out, "reduce_scatter: out is not a contiguous CPU tensor");
  check_summable(in, "reduce_scatter: sums real numbers and int64 only");
  expects(in.scalar_type() == out.scalar_type(), "reduce_scatter: in and out differ in type");
  expects(in.numel() == num_members * out.numel(), "reduce_scatter: in is not [members, out...]");
}

void check_all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows, int member) {
  check_dense(in, "all_gather_rows: in is not a contiguous CPU tensor");
  check_dense(out, "all_gather_rows: out is not a contiguous CPU tensor");
  expects(in.dim() > 0 && out.dim() > 0, "all_gather_rows: rows need a dim");
  expects(in.scalar_type() == out.scalar_type() && row_bytes(in) == row_bytes(out),
          "all_gather_rows: rows of in and out differ");
  expects(in.size(0) == rows[member], "all_gather_rows: in has not the rows of this member");
  expects(total(rows) == out.size(0), "all_gather_rows: rows do not add up to those of out");
}

void check_reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows, int member) {
  check_all_gather_rows(out, in, rows, member);
  check_summable(in, "reduce_scatter_rows: sums real numbers and int64 only");
}

void check_all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                      std::span<const int64_t> receive_rows) {
  check_dense(in, "all_to_all: in is not a contiguous CPU tensor");
  check_dense(out, "all_to_all: out is not a contiguous CPU tensor");
  expects(in.dim() > 0 && out.dim() > 0, "all_to_all: rows need a dim");
  expects(in.scalar_type() == out.scalar_type() && row_bytes(in) == row_bytes(out),
          "all_to_all: rows of in and out differ");
  expects(total(send_rows) == in.size(0), "all_to_all: send_rows do not add up to the rows of in");
  expects(total(receive_rows) == out.size(0), "all_to_all: receive_rows do not add up to the rows of out");
}

void check_broadcast(const at::Tensor& value, int root, int num_members) {
  check_dense(value, "broadcast: value is not a contiguous CPU tensor");
  expects(root >= 0 && root < num_members, "broadcast: root is not a member");
}

}  // namespace plait::wire
