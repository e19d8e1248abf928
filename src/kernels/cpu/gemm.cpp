#include "kernels/cpu/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace plait::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kTileRows = 14;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32, kTileRows = 6;
#else
constexpr int kVectorBytes = 16, kTileRows = 6;
#endif
constexpr int kTileVectors = 2;
constexpr int kFetchSquares = 8, kFetchRows = 32;  // how far ahead of the packing b is asked for
constexpr int64_t kWorthThreads =
    1 << 18;  // multiply-adds below which waking a second thread costs more than it brings

template <class T>
struct Sizes {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  typedef T Anywhere __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias));
  static constexpr int64_t lanes = kVectorBytes / sizeof(T);
  static constexpr int64_t panel = kTileVectors * lanes;  // columns of a panel of b
  static constexpr int64_t depth = 2048 / sizeof(T);      // of k in a block: a panel of b stays in the inner caches
  static constexpr int64_t stride =
      depth + 64 / sizeof(T);                      // of a packed row of a; not a power of two, so rows do not collide
  static constexpr int64_t rows = 16 * kTileRows;  // of a block of a: half of a 1 MB second-level cache
  static constexpr int64_t columns = 1024;         // of a block of b
};

// Packed space of one thread, kept because fresh pages cost more than the packing.
template <class T>
struct Scratch {
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  static std::unique_ptr<T[], Free> make(int64_t size) {
    return std::unique_ptr<T[], Free>(static_cast<T*>(::operator new[](size * sizeof(T), std::align_val_t{64})));
  }
  std::unique_ptr<T[], Free> a = make(Sizes<T>::rows * Sizes<T>::stride + kVectorBytes);
  std::unique_ptr<T[], Free> b = make(Sizes<T>::columns * Sizes<T>::depth);
};

template <class T>
Scratch<T>& scratch() {
  thread_local Scratch<T> mine;
  return mine;
}

template <class T>
typename Sizes<T>::Vector load(const T* p) {
  return *reinterpret_cast<const typename Sizes<T>::Anywhere*>(p);
}

template <class T>
void put(T* p, typename Sizes<T>::Vector v) {
  *reinterpret_cast<typename Sizes<T>::Anywhere*>(p) = v;
}

// A packed operand a lies by rows (as given) or by columns (given transposed: [k][rows of the tile]).
enum class Lie { rows, columns };

template <class T>
struct Tile {
  const T* a;
  const T* b;
  T* c;
  int64_t ldc, depth, columns;
  Into into;
};

template <class T, int kRows, int kVectors>
void store(const Tile<T>& tile, const typename Sizes<T>::Vector (&sum)[kRows][kVectors]) {
  constexpr int64_t lanes = Sizes<T>::lanes;
  if (tile.columns < kVectors * lanes) {
    for (int i = 0; i < kRows; ++i) {
      T row[kVectors * lanes];
      std::memcpy(row, sum[i], sizeof row);
      T* c = tile.c + i * tile.ldc;
      if (tile.into == Into::accumulate)
        for (int64_t j = 0; j < tile.columns; ++j) c[j] += row[j];
      else
        std::memcpy(c, row, tile.columns * sizeof(T));
    }
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      T* c = tile.c + i * tile.ldc + j * lanes;
      auto v = sum[i][j];
      if (tile.into == Into::accumulate) v += load(c);
      put(c, v);
    }
  }
}

// Asks for the tile's part of c, which is needed only after the sums.
template <class T, int kRows, int kVectors>
void fetch(const Tile<T>& tile) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    __builtin_prefetch(tile.c + i * tile.ldc, 1);
    __builtin_prefetch(tile.c + i * tile.ldc + kVectors * Sizes<T>::lanes - 1, 1);
  }
}

template <class T, Lie lie, int kRows, int kVectors>
void multiply(const Tile<T>& tile) {
  using Vector = typename Sizes<T>::Vector;
  constexpr int64_t lanes = Sizes<T>::lanes;
  constexpr int64_t row = lie == Lie::rows ? Sizes<T>::stride : 1, step = lie == Lie::rows ? 1 : kRows;
  fetch<T, kRows, kVectors>(tile);
  Vector sum[kRows][kVectors] = {};
  const T* __restrict a = tile.a;
  const T* __restrict b = tile.b;
  for (int64_t k = 0; k < tile.depth; ++k, a += step, b += kVectors * lanes) {
    Vector column[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) column[j] = load(b + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] += column[j] * a[i * row];
    }
  }
  store<T, kRows, kVectors>(tile, sum);
}

template <class T>
using Multiply = void (*)(const Tile<T>&);

template <class T, Lie lie, int kVectors, int... rows>
constexpr std::array<Multiply<T>, sizeof...(rows)> table(std::integer_sequence<int, rows...>) {
  return {&multiply<T, lie, rows + 1, kVectors>...};
}

template <class T, Lie lie>
void multiply(int64_t rows, int64_t vectors, const Tile<T>& tile) {
  using Rows = std::make_integer_sequence<int, kTileRows>;
  static constexpr auto narrow = table<T, lie, 1>(Rows{});
  static constexpr auto wide = table<T, lie, kTileVectors>(Rows{});
  (vectors == 1 ? narrow : wide)[rows - 1](tile);
}

// Parts of `size` as equal as possible, none larger than `most`.
struct Parts {
  int64_t size, count;
  Parts(int64_t size, int64_t most) : size(size), count((size + most - 1) / most) {}
  int64_t begin(int64_t part) const { return size * part / count; }
  int64_t length(int64_t part) const { return begin(part + 1) - begin(part); }
};

// Turns a square of vectors on its diagonal: after log2(lanes) perfect shuffles row i holds what was column i.
template <class Vector, size_t... lane>
void zip(const Vector& x, const Vector& y, Vector& low, Vector& high, std::index_sequence<lane...>) {
  constexpr int half = sizeof...(lane) / 2, all = sizeof...(lane);
  low = __builtin_shufflevector(x, y, (lane % 2 ? all + lane / 2 : lane / 2)...);
  high = __builtin_shufflevector(x, y, (lane % 2 ? all + half + lane / 2 : half + lane / 2)...);
}

template <class T>
void transpose(const T* from, int64_t ld, T* to, int64_t ld_to) {
  constexpr int64_t lanes = Sizes<T>::lanes;
  using Vector = typename Sizes<T>::Vector;
  Vector x[lanes], y[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    x[i] = load(from + i * ld);
    __builtin_prefetch(from + i * ld + kFetchSquares * lanes);
  }
#pragma GCC unroll 4
  for (int stage = 1; stage < lanes; stage *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes / 2; ++i)
      zip(x[i], x[i + lanes / 2], y[2 * i], y[2 * i + 1], std::make_index_sequence<lanes>{});
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) put(to + i * ld_to, x[i]);
}

// A panel of b: [depth][width], columns beyond `columns` are zero.
template <class T>
struct Panel {
  const T* b;
  int64_t ldb, depth, columns, width;
  T* to;
};

template <class T>
void pack_panel(const Panel<T>& p) {
  for (int64_t k = 0; k < p.depth; ++k) {
    T* row = p.to + k * p.width;
    __builtin_prefetch(p.b + (k + kFetchRows) * p.ldb);
    __builtin_prefetch(p.b + (k + kFetchRows) * p.ldb + p.width - 1);
    if (p.columns == p.width)
      for (int64_t j = 0; j < p.width; ++j) row[j] = p.b[k * p.ldb + j];
    else
      for (int64_t j = 0; j < p.width; ++j) row[j] = j < p.columns ? p.b[k * p.ldb + j] : T{0};
  }
}

template <class T>
void pack_turned_panel(const Panel<T>& p) {
  constexpr int64_t lanes = Sizes<T>::lanes;
  for (int64_t j = 0; j < p.width; j += lanes) {
    int64_t whole = j + lanes <= p.columns ? p.depth / lanes * lanes : 0;
    for (int64_t k = 0; k < whole; k += lanes) transpose(p.b + j * p.ldb + k, p.ldb, p.to + k * p.width + j, p.width);
    for (int64_t k = whole; k < p.depth; ++k)
      for (int64_t i = j; i < j + lanes; ++i) p.to[k * p.width + i] = i < p.columns ? p.b[i * p.ldb + k] : T{0};
  }
}

template <class T>
int64_t panel_width(int64_t columns_left) {
  return columns_left > Sizes<T>::lanes ? Sizes<T>::panel : Sizes<T>::lanes;
}

// One block of the product: `rows` x `columns` of c, `depth` of k, with the operands' corners in a, b and c.
template <class T>
void pack_b(const Gemm<T>& block, Layout layout, T* to) {
  for (int64_t j = 0; j < block.n;) {
    int64_t width = panel_width<T>(block.n - j), columns = std::min(width, block.n - j);
    const T* b = block.b + (layout == Layout::nt ? j * block.ldb : j);
    Panel<T> panel{b, block.ldb, block.k, columns, width, to + j * block.k};
    layout == Layout::nt ? pack_turned_panel(panel) : pack_panel(panel);
    j += width;
  }
}

template <class T>
struct Columns {
  const T* from;
  int64_t ld, depth, rows;
};

// to[depth][rows] = `depth` rows of `from`, each a few elements long. Whole vectors are copied while what they read
// beyond a row lies inside the matrix; what they write beyond it is overwritten by the next row.
template <class T>
void pack_columns(const Columns<T>& c, T* to) {
  constexpr int64_t lanes = Sizes<T>::lanes;
  int64_t span = (c.rows + lanes - 1) / lanes * lanes;
  int64_t whole = std::max<int64_t>(0, c.depth - 1 - (span - c.rows + c.ld - 1) / c.ld);
  for (int64_t k = 0; k < whole; ++k)
    for (int64_t i = 0; i < span; i += lanes) put(to + k * c.rows + i, load(c.from + k * c.ld + i));
  for (int64_t k = whole; k < c.depth; ++k)
    for (int64_t i = 0; i < c.rows; ++i) to[k * c.rows + i] = c.from[k * c.ld + i];
}

template <class T>
void pack_a(const Gemm<T>& block, Layout layout, T* to) {
  if (layout != Layout::tn) {
    for (int64_t i = 0; i < block.m; ++i)
      std::memcpy(to + i * Sizes<T>::stride, block.a + i * block.lda, block.k * sizeof(T));
    return;
  }
  Parts tiles(block.m, kTileRows);
  for (int64_t t = 0; t < tiles.count; ++t)
    pack_columns<T>({block.a + tiles.begin(t), block.lda, block.k, tiles.length(t)}, to + tiles.begin(t) * block.k);
}

template <class T, Lie lie>
void multiply_block(const Gemm<T>& block, const Scratch<T>& packed, Into into) {
  Parts tiles(block.m, kTileRows);
  for (int64_t j = 0; j < block.n;) {
    int64_t width = panel_width<T>(block.n - j);
    for (int64_t t = 0; t < tiles.count; ++t) {
      int64_t i = tiles.begin(t);
      const T* a = packed.a.get() + i * (lie == Lie::rows ? Sizes<T>::stride : block.k);
      multiply<T, lie>(tiles.length(t), width / Sizes<T>::lanes,
                       Tile<T>{.a = a,
                               .b = packed.b.get() + j * block.k,
                               .c = block.c + i * block.ldc + j,
                               .ldc = block.ldc,
                               .depth = block.k,
                               .columns = block.n - j,
                               .into = into});
    }
    j += width;
  }
}

// The piece of a product that starts at (i, j, k).
template <class T>
Gemm<T> corner(Gemm<T> p, Layout layout, std::array<int64_t, 3> at) {
  auto [i, j, k] = at;
  p.a += layout == Layout::tn ? k * p.lda + i : i * p.lda + k;
  p.b += layout == Layout::nt ? j * p.ldb + k : k * p.ldb + j;
  p.c += i * p.ldc + j;
  return p;
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& p, Layout layout, Into into) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0 && into == Into::overwrite)
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.c + i * p.ldc, p.n, T{0});
  Scratch<T>& packed = scratch<T>();
  Parts depths(p.k, Sizes<T>::depth), heights(p.m, Sizes<T>::rows);
  for (int64_t j = 0; j < p.n; j += Sizes<T>::columns) {
    for (int64_t d = 0; d < depths.count; ++d) {
      int64_t k = depths.begin(d);
      Gemm<T> slab = corner(p, layout, {0, j, k});
      slab.n = std::min(Sizes<T>::columns, p.n - j);
      slab.k = depths.length(d);
      pack_b(slab, layout, packed.b.get());
      for (int64_t h = 0; h < heights.count; ++h) {
        Gemm<T> block = corner(slab, layout, {heights.begin(h), 0, 0});
        block.m = heights.length(h);
        pack_a(block, layout, packed.a.get());
        Into then = d > 0 ? Into::accumulate : into;
        layout == Layout::tn ? multiply_block<T, Lie::columns>(block, packed, then)
                             : multiply_block<T, Lie::rows>(block, packed, then);
      }
    }
  }
}

namespace {

// What a product costs, in multiply-adds: packing an element takes about as long as 16 of them.
template <class T>
double cost(const Gemm<T>& p) {
  return static_cast<double>(p.k + 1) *
         (static_cast<double>(p.m) * static_cast<double>(p.n) + 16.0 * static_cast<double>(p.m + p.n));
}

// The part of a product between two shares of its longer side: the operand along the other side is packed twice.
template <class T>
Gemm<T> part(const Gemm<T>& p, Layout layout, double from, double to) {
  const bool across = p.n > p.m;
  const int64_t unit = across ? Sizes<T>::panel : 1, size = across ? p.n : p.m, units = (size + unit - 1) / unit;
  const auto cut = [&](double share) {
    return std::min<int64_t>(size, std::llround(static_cast<double>(units) * share) * unit);
  };
  const int64_t begin = cut(from), length = cut(to) - begin;
  Gemm<T> mine = corner(p, layout, across ? std::array<int64_t, 3>{0, begin, 0} : std::array<int64_t, 3>{begin, 0, 0});
  (across ? mine.n : mine.m) = length;
  return mine;
}

}  // namespace

template <class T>
void gemm_all(std::span<const Gemm<T>> products, Layout layout, Into into) {
  double all = 0;
  for (const auto& p : products) all += cost(p);
  const int64_t threads = at::in_parallel_region() || all < kWorthThreads ? 1 : at::get_num_threads();
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    const auto share = [&](int64_t thread) { return all * static_cast<double>(thread) / static_cast<double>(threads); };
    const double begin = share(first), end = share(last);
    double at = 0;
    for (const auto& p : products) {
      const double size = cost(p), from = std::clamp((begin - at) / size, 0.0, 1.0),
                   to = std::clamp((end - at) / size, 0.0, 1.0);
      if (to > from) gemm(part(p, layout, from, to), layout, into);
      at += size;
    }
  });
}

template void gemm(const Gemm<float>&, Layout, Into);
template void gemm(const Gemm<double>&, Layout, Into);
template void gemm_all(std::span<const Gemm<float>>, Layout, Into);
template void gemm_all(std::span<const Gemm<double>>, Layout, Into);

}  // namespace plait::kernels
