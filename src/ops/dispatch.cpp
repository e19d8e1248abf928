#include "ops/dispatch.h"

#include <cstring>
#include <vector>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plait::ops {
namespace {

// Which route (t * K + k) fills a row; -1: none.
std::vector<int64_t> routes_of_rows(const at::Tensor& row_TK, int64_t rows) {
  std::vector<int64_t> route(rows, -1);
  const int64_t* row = in<int64_t>(row_TK);
  for (int64_t r = 0; r < row_TK.numel(); ++r) {
    if (row[r] < 0) continue;
    expects(row[r] < rows, "encode: a route lies beyond the buffer");
    expects(route[row[r]] < 0, "encode: two routes share a row");
    route[row[r]] = r;
  }
  return route;
}

void expects_rows_in(const at::Tensor& row_TK, int64_t rows) {
  const int64_t* row = in<int64_t>(row_TK);
  for (int64_t r = 0; r < row_TK.numel(); ++r) expects(row[r] < rows, "decode: a route lies beyond the buffer");
}

// fill(to, from, route) for every filled row, zeros for the others.
template <class T, class Fill>
void encode_with(const at::Tensor& x_TD, const at::Tensor& row_TK, const at::Tensor& out_RD, Fill fill) {
  int64_t rows = out_RD.size(0), width = out_RD.size(1), top_k = row_TK.size(1);
  expects(x_TD.size(1) == width && x_TD.size(0) == row_TK.size(0), "encode: x, row and out do not fit");
  std::vector<int64_t> route = routes_of_rows(row_TK, rows);
  const T* x = in<T>(x_TD);
  T* to = out<T>(out_RD);
  over_rows(rows, width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (route[r] < 0)
        std::memset(to + r * width, 0, width * sizeof(T));
      else
        fill(to + r * width, x + route[r] / top_k * width, route[r]);
    }
  });
}

// y[t] = sum over k of factor(t * K + k) * rows[row]; the first route writes, the others add.
template <class T, class Factor>
void decode_with(const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& y_TD, Factor factor) {
  int64_t tokens = y_TD.size(0), width = y_TD.size(1), top_k = row_TK.size(1);
  expects(rows_RD.size(1) == width && row_TK.size(0) == tokens, "decode: rows, row and y do not fit");
  expects_rows_in(row_TK, rows_RD.size(0));
  const T* rows = in<T>(rows_RD);
  const int64_t* row = in<int64_t>(row_TK);
  T* y = out<T>(y_TD);
  over_rows(tokens, width * top_k, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      T* __restrict to = y + t * width;
      bool first = true;
      for (int64_t route = t * top_k; route < (t + 1) * top_k; ++route) {
        if (row[route] < 0) continue;
        const T* __restrict from = rows + row[route] * width;
        T w = factor(route);
        if (first)
          for (int64_t d = 0; d < width; ++d) to[d] = w * from[d];
        else
          for (int64_t d = 0; d < width; ++d) to[d] += w * from[d];
        first = false;
      }
      if (first) std::memset(to, 0, width * sizeof(T));
    }
  });
}

}  // namespace

void count_rows(const Placed& routes, const RowCounts& counts) {
  int64_t chunks = counts.table.size(0), experts = counts.table.size(1), cells = counts.table.size(2);
  int64_t tokens = routes.idx_TK.size(0), top_k = routes.idx_TK.size(1);
  expects(cells > 0 && tokens % cells == 0, "count_rows: the tokens are not equal blocks");
  expects(static_cast<int64_t>(counts.rows_TK.size()) == chunks, "count_rows: one list of places per chunk");
  const int64_t *idx = in<int64_t>(routes.idx_TK), *slot = in<int64_t>(routes.slot_TK);
  int64_t* table = out<int64_t>(counts.table);
  int64_t per_cell = std::max<int64_t>(1, tokens / cells * top_k);
  auto counted = [&](int64_t route) { return idx[route] >= 0 && slot[route] >= 0; };
  auto chunk = [&](int64_t route) { return route % per_cell / top_k * chunks / (per_cell / top_k); };
  auto cell = [&](int64_t route) { return idx[route] * cells + route / per_cell; };

  std::fill_n(table, counts.table.numel(), 0);
  for (int64_t route = 0; route < tokens * top_k; ++route) {
    if (!counted(route)) continue;
    expects(idx[route] < experts, "count_rows: a route to an expert beyond the table");
    ++table[chunk(route) * experts * cells + cell(route)];
  }
  for (int64_t h = 0; h < chunks; ++h) {
    std::vector<int64_t> next(experts * cells);
    const int64_t* of_chunk = table + h * experts * cells;
    for (int64_t c = 0, sum = 0; c < experts * cells; sum += of_chunk[c++]) next[c] = sum;
    int64_t* row = out<int64_t>(counts.rows_TK[h]);
    for (int64_t route = 0; route < tokens * top_k; ++route)
      row[route] = counted(route) && chunk(route) == h ? next[cell(route)]++ : -1;
  }
}

void place_rows(const Placed& routes, const PaddedShape& shape, const at::Tensor& row_TK) {
  int64_t tokens = routes.idx_TK.size(0), top_k = routes.idx_TK.size(1);
  expects(shape.groups > 0 && tokens % shape.groups == 0, "place_rows: the tokens are not equal groups");
  const int64_t *idx = in<int64_t>(routes.idx_TK), *slot = in<int64_t>(routes.slot_TK);
  int64_t* row = out<int64_t>(row_TK);
  int64_t per_group = std::max<int64_t>(1, tokens / shape.groups * top_k);
  for (int64_t route = 0; route < tokens * top_k; ++route) {
    expects(idx[route] < shape.experts && slot[route] < shape.capacity, "place_rows: a route beyond the buffer");
    bool counted = idx[route] >= 0 && slot[route] >= 0;
    row[route] = counted ? (idx[route] * shape.groups + route / per_group) * shape.capacity + slot[route] : -1;
  }
}

void encode(const at::Tensor& x_TD, const at::Tensor& row_TK, const at::Tensor& out_RD) {
  by_dtype(x_TD, [&]<class T>(T) {
    int64_t bytes = x_TD.size(1) * sizeof(T);
    encode_with<T>(x_TD, row_TK, out_RD, [bytes](T* to, const T* from, int64_t) { std::memcpy(to, from, bytes); });
  });
}

void encode_weighted(const at::Tensor& x_TD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& out_RD) {
  expects(weight_TK.sizes() == row_TK.sizes(), "encode_weighted: one weight per route");
  by_dtype(x_TD, [&]<class T>(T) {
    const T* weight = in<T>(weight_TK);
    int64_t width = x_TD.size(1);
    encode_with<T>(x_TD, row_TK, out_RD, [=](T* __restrict to, const T* __restrict from, int64_t route) {
      for (int64_t d = 0; d < width; ++d) to[d] = weight[route] * from[d];
    });
  });
}

void decode(const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& y_TD) {
  by_dtype(rows_RD, [&]<class T>(T) { decode_with<T>(rows_RD, row_TK, y_TD, [](int64_t) { return T{1}; }); });
}

void decode_weighted(const at::Tensor& rows_RD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& y_TD) {
  expects(weight_TK.sizes() == row_TK.sizes(), "decode_weighted: one weight per route");
  by_dtype(rows_RD, [&]<class T>(T) {
    const T* weight = in<T>(weight_TK);
    decode_with<T>(rows_RD, row_TK, y_TD, [weight](int64_t route) { return weight[route]; });
  });
}

void pair(const at::Tensor& x_TD, const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& dw_TK) {
  int64_t tokens = x_TD.size(0), width = x_TD.size(1), top_k = row_TK.size(1);
  expects(rows_RD.size(1) == width && row_TK.size(0) == tokens && dw_TK.sizes() == row_TK.sizes(),
          "pair: x, rows, row and dw do not fit");
  expects_rows_in(row_TK, rows_RD.size(0));
  by_dtype(x_TD, [&]<class T>(T) {
    const T *x = in<T>(x_TD), *rows = in<T>(rows_RD);
    const int64_t* row = in<int64_t>(row_TK);
    T* dw = out<T>(dw_TK);
    over_rows(tokens * top_k, 2 * width, [&](int64_t begin, int64_t end) {
      for (int64_t route = begin; route < end; ++route)
        dw[route] = row[route] < 0 ? T{0} : dot(x + route / top_k * width, rows + row[route] * width, width);
    });
  });
}

}  // namespace plait::ops
