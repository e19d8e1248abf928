#include "kernels/cpu/dispatch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/cpu/kernel.h"
#include "kernels/cpu/simd.h"

namespace plait::kernels {
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

// What fills a row: a route, and space to widen a token and a row.
template <class T>
struct RowSpace {
  int64_t route;
  Wide<T>*a, *b;
};

// fill(to, from, RowSpace) for every filled row, zeros for the others.
template <class T, class Fill>
void encode_with(const at::Tensor& x_TD, const at::Tensor& row_TK, const at::Tensor& out_RD, Fill fill) {
  int64_t rows = out_RD.size(0), width = out_RD.size(1), top_k = row_TK.size(1);
  expects(x_TD.size(1) == width && x_TD.size(0) == row_TK.size(0), "encode: x, row and out do not fit");
  std::vector<int64_t> route = routes_of_rows(row_TK, rows);
  const T* x = in<T>(x_TD);
  T* to = out<T>(out_RD);
  over_rows(rows, width, [&](int64_t begin, int64_t end) {
    std::vector<Wide<T>> a = space<T>(width), b = space<T>(width);
    for (int64_t r = begin; r < end; ++r) {
      if (route[r] < 0)
        std::memset(to + r * width, 0, width * sizeof(T));
      else
        fill(to + r * width, x + route[r] / top_k * width, RowSpace<T>{route[r], a.data(), b.data()});
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
    std::vector<Wide<T>> a = space<T>(width), b = space<T>(width);
    for (int64_t t = begin; t < end; ++t) {
      Wide<T>* __restrict to = room(y + t * width, b.data());
      bool first = true;
      for (int64_t route = t * top_k; route < (t + 1) * top_k; ++route) {
        if (row[route] < 0) continue;
        const Wide<T>* __restrict from = wide(rows + row[route] * width, width, a.data());
        const Wide<T> w = factor(route);
        if (first)
          for (int64_t d = 0; d < width; ++d) to[d] = w * from[d];
        else
          for (int64_t d = 0; d < width; ++d) to[d] += w * from[d];
        first = false;
      }
      if (first) std::memset(to, 0, width * sizeof(Wide<T>));
      settle(to, y + t * width, width);
    }
  });
}

}  // namespace

namespace {

// Which cell of which chunk each route is in.
class Cells {
 public:
  Cells(const Placed& routes, const CellShape& shape)
      : idx_(in<int64_t>(routes.idx_TK)), slot_(in<int64_t>(routes.slot_TK)), shape_(shape) {
    const int64_t tokens = routes.idx_TK.size(0);
    top_k_ = routes.idx_TK.size(1);
    expects(shape.cells > 0 && tokens % shape.cells == 0, "count_rows: the tokens are not equal blocks");
    per_cell_ = std::max<int64_t>(1, tokens / shape.cells * top_k_);
  }

  bool counted(int64_t route) const { return idx_[route] >= 0 && slot_[route] >= 0; }
  int64_t chunk(int64_t route) const { return route % per_cell_ / top_k_ * shape_.chunks / (per_cell_ / top_k_); }
  // Within its chunk.
  int64_t cell(int64_t route) const {
    expects(idx_[route] < shape_.experts, "count_rows: a route to an expert beyond the table");
    return idx_[route] * shape_.cells + route / per_cell_;
  }
  int64_t per_chunk() const { return shape_.experts * shape_.cells; }

  void count(int64_t routes, int64_t* table) const {
    std::fill_n(table, shape_.chunks * per_chunk(), 0);
    for (int64_t route = 0; route < routes; ++route)
      if (counted(route)) ++table[chunk(route) * per_chunk() + cell(route)];
  }

 private:
  const int64_t *idx_, *slot_;
  CellShape shape_;
  int64_t top_k_ = 1, per_cell_ = 1;
};

}  // namespace

int64_t busiest_cell(const Placed& routes, const CellShape& shape) {
  std::vector<int64_t> table(shape.chunks * shape.experts * shape.cells);
  Cells(routes, shape).count(routes.idx_TK.numel(), table.data());
  return *std::max_element(table.begin(), table.end());
}

void count_rows(const Placed& routes, const RowCounts& counts, int64_t rows_each) {
  const CellShape shape{counts.table.size(0), counts.table.size(1), counts.table.size(2)};
  expects(static_cast<int64_t>(counts.rows_TK.size()) == shape.chunks, "count_rows: one list of places per chunk");
  const Cells cells(routes, shape);
  const int64_t num_routes = routes.idx_TK.numel();
  int64_t* table = out<int64_t>(counts.table);
  cells.count(num_routes, table);
  if (rows_each > 0) {
    for (int64_t c = 0; c < counts.table.numel(); ++c)
      expects(table[c] <= rows_each, "count_rows: a cell has more rows than it may");
    std::fill_n(table, counts.table.numel(), rows_each);
  }
  for (int64_t h = 0; h < shape.chunks; ++h) {
    std::vector<int64_t> next(cells.per_chunk());
    const int64_t* of_chunk = table + h * cells.per_chunk();
    for (int64_t c = 0, sum = 0; c < cells.per_chunk(); sum += of_chunk[c++]) next[c] = sum;
    int64_t* row = out<int64_t>(counts.rows_TK[h]);
    for (int64_t route = 0; route < num_routes; ++route)
      row[route] = cells.counted(route) && cells.chunk(route) == h ? next[cells.cell(route)]++ : -1;
  }
}

void routes_by_node(const Placed& routes, int64_t experts_per_node, const NodeRoutes& by_node) {
  const int64_t tokens = routes.idx_TK.size(0), top_k = routes.idx_TK.size(1), most = by_node.node_TN.size(1);
  const int64_t *idx = in<int64_t>(routes.idx_TK), *slot = in<int64_t>(routes.slot_TK);
  int64_t *node = out<int64_t>(by_node.node_TN), *first = out<int64_t>(by_node.slot_TN),
          *kept = out<int64_t>(by_node.kept_TK);
  std::fill_n(node, tokens * most, -1);
  std::fill_n(first, tokens * most, -1);
  for (int64_t t = 0; t < tokens; ++t) {
    int64_t *begin = node + t * most, *end = begin;
    for (int64_t route = t * top_k; route < (t + 1) * top_k; ++route) {
      kept[route] = idx[route] >= 0 && slot[route] >= 0 ? idx[route] : -1;
      if (kept[route] < 0) continue;
      const int64_t to = kept[route] / experts_per_node;
      if (std::find(begin, end, to) != end) continue;
      expects(end - begin < most, "routes_by_node: a route to an expert beyond the last node");
      first[end - node] = 0;
      *end++ = to;
    }
  }
}

void count_within(const ArrivedRows& arrived, const at::Tensor& table, const at::Tensor& row_RK) {
  const int64_t nodes = arrived.rows.size(0), cells = arrived.rows.size(1), top_k = arrived.kept_RK.size(1);
  const int64_t each = table.numel() / cells / nodes;  // experts of a node
  const int64_t *kept = in<int64_t>(arrived.kept_RK), *rows = in<int64_t>(arrived.rows);
  int64_t *count = out<int64_t>(table), *place = out<int64_t>(row_RK);
  expects(std::accumulate(rows, rows + nodes * cells, int64_t{0}) * top_k == arrived.kept_RK.numel(),
          "count_within: rows and their table differ");
  // f(route, its cell of the table) for the routes that are here.
  const auto each_route = [&](auto f) {
    int64_t route = 0;
    for (int64_t n = 0; n < nodes; ++n)
      for (int64_t c = 0; c < cells; ++c)
        for (const int64_t end = route + rows[n * cells + c] * top_k; route < end; ++route) {
          const int64_t expert = kept[route] - arrived.first_expert;
          if (kept[route] >= 0 && expert >= n * each && expert < (n + 1) * each) f(route, expert * cells + c);
        }
  };
  std::fill_n(count, table.numel(), 0);
  std::fill_n(place, arrived.kept_RK.numel(), -1);
  each_route([&](int64_t, int64_t cell) { ++count[cell]; });
  std::vector<int64_t> next(table.numel());
  for (int64_t c = 0, sum = 0; c < table.numel(); sum += count[c++]) next[c] = sum;
  each_route([&](int64_t route, int64_t cell) { place[route] = next[cell]++; });
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
  const auto copy = [&]<class T>(T) {
    int64_t bytes = x_TD.size(1) * sizeof(T);
    encode_with<T>(x_TD, row_TK, out_RD, [bytes](T* to, const T* from, RowSpace<T>) { std::memcpy(to, from, bytes); });
  };
  x_TD.scalar_type() == at::kLong ? copy(int64_t{}) : by_element(x_TD, copy);
}

void encode_weighted(const at::Tensor& x_TD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& out_RD) {
  expects(weight_TK.sizes() == row_TK.sizes(), "encode_weighted: one weight per route");
  by_element(x_TD, [&]<class T>(T) {
    const Wide<T>* weight = in<Wide<T>>(weight_TK);
    int64_t width = x_TD.size(1);
    encode_with<T>(x_TD, row_TK, out_RD, [=](T* row, const T* token, RowSpace<T> s) {
      const Wide<T>* __restrict from = wide(token, width, s.a);
      Wide<T>* __restrict to = room(row, s.b);
      for (int64_t d = 0; d < width; ++d) to[d] = weight[s.route] * from[d];
      settle(to, row, width);
    });
  });
}

void decode(const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& y_TD) {
  by_element(rows_RD, [&]<class T>(T) { decode_with<T>(rows_RD, row_TK, y_TD, [](int64_t) { return Wide<T>{1}; }); });
}

void decode_weighted(const at::Tensor& rows_RD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& y_TD) {
  expects(weight_TK.sizes() == row_TK.sizes(), "decode_weighted: one weight per route");
  by_element(rows_RD, [&]<class T>(T) {
    const Wide<T>* weight = in<Wide<T>>(weight_TK);
    decode_with<T>(rows_RD, row_TK, y_TD, [weight](int64_t route) { return weight[route]; });
  });
}

void pair(const at::Tensor& x_TD, const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& dw_TK) {
  int64_t tokens = x_TD.size(0), width = x_TD.size(1), top_k = row_TK.size(1);
  expects(rows_RD.size(1) == width && row_TK.size(0) == tokens && dw_TK.sizes() == row_TK.sizes(),
          "pair: x, rows, row and dw do not fit");
  expects_rows_in(row_TK, rows_RD.size(0));
  by_element(x_TD, [&]<class T>(T) {
    const T *x = in<T>(x_TD), *rows = in<T>(rows_RD);
    const int64_t* row = in<int64_t>(row_TK);
    Wide<T>* dw = out<Wide<T>>(dw_TK);
    over_rows(tokens * top_k, 2 * width, [&](int64_t begin, int64_t end) {
      std::vector<Wide<T>> a = space<T>(width), b = space<T>(width);
      for (int64_t route = begin; route < end; ++route)
        dw[route] = row[route] < 0 ? Wide<T>{0}
                                   : dot(wide(x + route / top_k * width, width, a.data()),
                                         wide(rows + row[route] * width, width, b.data()), width);
    });
  });
}

}  // namespace plait::kernels
