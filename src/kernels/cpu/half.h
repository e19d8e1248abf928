// Numbers of 2 bytes: bfloat16 and float16. A kernel computes with them in float32, a row at a time: `wide` gives the
// row to read, `room` the row to write, `settle` puts it where it belongs. For float32 and float64 all three do
// nothing.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace plait::kernels {

void widen(const c10::BFloat16* from, float* to, int64_t size);
void widen(const c10::Half* from, float* to, int64_t size);
// To nearest, ties to even; too large for float16 becomes infinite.
void narrow(const float* from, c10::BFloat16* to, int64_t size);
void narrow(const float* from, c10::Half* to, int64_t size);

template <class T>
constexpr bool kIsHalf = sizeof(T) == 2;

// What elements of T are computed in.
template <class T>
using Wide = std::conditional_t<kIsHalf<T>, float, T>;

// Space for the rows of one thread; none where nothing is widened.
template <class T>
std::vector<Wide<T>> space(int64_t size) {
  return std::vector<Wide<T>>(kIsHalf<T> ? size : 0);
}

template <class T>
const Wide<T>* wide(const T* from, int64_t size, Wide<T>* space) {
  if constexpr (!kIsHalf<T>)
    return from;
  else {
    widen(from, space, size);
    return space;
  }
}

template <class T>
Wide<T>* room(T* to, Wide<T>* space) {
  if constexpr (kIsHalf<T>)
    return space;
  else
    return to;
}

template <class T>
void settle(const Wide<T>* from, T* to, int64_t size) {
  if constexpr (kIsHalf<T>) narrow(from, to, size);
}

}  // namespace plait::kernels
