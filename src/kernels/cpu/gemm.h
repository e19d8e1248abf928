// A matrix product of one thread: blocks packed for the caches, tiles of registers inside. Every element of c is
// summed along k in the same order whatever m, n and the thread count, so a row's bits do not depend on its neighbours.
// Blocking after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
#pragma once
#include <cstdint>
#include <span>

namespace plait::kernels {

// How the two operands lie: nn a[m,k] b[k,n]; nt a[m,k] b[n,k]; tn a[k,m] b[k,n].
enum class Layout { nn, nt, tn };
enum class Into { overwrite, accumulate };

// c[m,n] (+)= a b; ld* are the distances between rows, in elements. k = 0 writes zeros.
template <class T>
struct Gemm {
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T* c;
  int64_t ldc;
  int64_t m, n, k;
};

// Each thread that calls keeps about 2.6 MB of packing space.
template <class T>
void gemm(const Gemm<T>& product, Layout layout, Into into);

// Many products, one after another, on all threads of the caller: each thread takes an equal share of the work in a
// row, so that few products are cut, along their longer side.
template <class T>
void gemm_all(std::span<const Gemm<T>> products, Layout layout, Into into);

}  // namespace plait::kernels
