// What every kernel starts with: the element type, checked pointers, and loops over threads.
// A kernel sees the tensors of one rank, writes into memory its caller planned, and sums in an order that depends
// on sizes only, never on the number of threads.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/errors.h"
#include "kernels/cpu/half.h"

namespace plait::kernels {

// Calls body(T{}) with the element type of x, float or double.
template <class Body>
void by_dtype(const at::Tensor& x, Body body) {
  if (x.scalar_type() == at::kFloat) return body(float{});
  expects(x.scalar_type() == at::kDouble, "a kernel takes float32 or float64");
  body(double{});
}

// The same with the types of activations: bfloat16 and float16 too, which are computed with in float32 (half.h).
template <class Body>
void by_element(const at::Tensor& x, Body body) {
  if (x.scalar_type() == at::kBFloat16) return body(c10::BFloat16{});
  if (x.scalar_type() == at::kHalf) return body(c10::Half{});
  by_dtype(x, body);
}

// Throws ContractError unless x is contiguous and holds elements of T.
template <class T>
const T* in(const at::Tensor& x) {
  expects(x.is_contiguous(), "a kernel reads contiguous tensors");
  return x.const_data_ptr<T>();
}

template <class T>
T* out(const at::Tensor& x) {
  expects(x.is_contiguous(), "a kernel writes contiguous tensors");
  return x.mutable_data_ptr<T>();
}

// Elements below which a second thread costs more than it brings.
constexpr int64_t kGrain = 16384;

// body(begin, end) over rows of `width` elements each.
template <class Body>
void over_rows(int64_t rows, int64_t width, Body body) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, width)), body);
}

// body(block, begin, end) over blocks of a fixed size: what a block sums does not depend on the threads.
template <class Body>
void over_blocks(int64_t size, int64_t block, Body body) {
  at::parallel_for(0, (size + block - 1) / block, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) body(b, b * block, std::min(size, (b + 1) * block));
  });
}

// body(first, size, space) over single elements of E: all of a thread's at once, those of 2 bytes in stretches that
// stay in the inner cache, with space to widen three of them.
constexpr int64_t kStretchOfHalves = 1024;
template <class E, class Body>
void over_stretches(int64_t size, Body body) {
  at::parallel_for(0, size, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<Wide<E>> wide = space<E>(3 * kStretchOfHalves);
    const int64_t step = kIsHalf<E> ? kStretchOfHalves : end - begin;
    for (int64_t at = begin; at < end; at += step) body(at, std::min(step, end - at), wide.data());
  });
}

// to[0..width) = the sum of the blocks' partial sums, in the order of the blocks.
template <class T>
void add_in_order(const std::vector<T>& sums, int64_t width, T* to) {
  std::fill_n(to, width, T{0});
  for (size_t i = 0; i < sums.size(); i += width)
    for (int64_t d = 0; d < width; ++d) to[d] += sums[i + d];
}

}  // namespace plait::kernels
