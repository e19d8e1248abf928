// Tokens to routed rows and back. `row_TK` says where each of a token's K routes lies in the local buffer of R rows,
// -1 for a route that is not there. encode, decode and pair are the three partial derivatives of one form,
// sum of weight[t,k] * <x[t], rows[row[t,k]]>, so each is the gradient of the others. Weights of values of 2 bytes are
// float32.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace plait::kernels {

struct Placed {
  at::Tensor idx_TK, slot_TK;  // of gate.h; a route counts when both are >= 0
};

struct RowCounts {
  at::Tensor table;                 // int64 [chunks, experts, cells]: routes per cell
  std::vector<at::Tensor> rows_TK;  // int64, one per chunk: places in the buffer of that chunk
};

// Of the T tokens as `cells` equal blocks, cut in chunks: the most routes of one (chunk, expert, cell).
struct CellShape {
  int64_t chunks, experts, cells;
};
int64_t busiest_cell(const Placed& routes, const CellShape& shape);

// The nodes that a token's routes go to, N = min(K, nodes): each once, -1 behind the last.
struct NodeRoutes {
  at::Tensor node_TN, slot_TN;  // slot 0 where there is a node
  at::Tensor kept_TK;           // idx of the routes that count, -1 for others
};
void routes_by_node(const Placed& routes, int64_t experts_per_node, const NodeRoutes& out);

// Rows that came to some nodes, in blocks by (node, cell), and the experts (kept_RK, global ids) of each: how many go
// to each (expert, cell), and their places in the order (expert, cell, row, k). The experts from `first_expert` on lie
// on the nodes in order; a route to an expert of another node is not here.
struct ArrivedRows {
  at::Tensor kept_RK, rows;  // rows: int64 [nodes, cells]
  int64_t first_expert = 0;
};
void count_within(const ArrivedRows& arrived, const at::Tensor& table, const at::Tensor& row_RK);

// Rows as they come, without padding: the T tokens are `cells` equal blocks in order, and the rows are sorted by
// (expert, cell, token, k). A chunk is an equal run of each cell's tokens with a buffer of its own. Chunks, experts and
// cells are the sizes of the table. With `rows_each` every cell has so many rows; REQUIRES that none needs more.
void count_rows(const Placed& routes, const RowCounts& out, int64_t rows_each = 0);

struct PaddedShape {
  int64_t groups, experts, capacity;
};

// Rows of a padded buffer [experts, groups, capacity]: every route has a place of its own, at its slot.
void place_rows(const Placed& routes, const PaddedShape& shape, const at::Tensor& row_TK);

// out[row[t,k]] = x[t]; rows that no route fills are zero. x may be integers.
void encode(const at::Tensor& x_TD, const at::Tensor& row_TK, const at::Tensor& out_RD);
// out[row[t,k]] = weight[t,k] * x[t]
void encode_weighted(const at::Tensor& x_TD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& out_RD);

// y[t] = sum over k of rows[row[t,k]]
void decode(const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& y_TD);
// y[t] = sum over k of weight[t,k] * rows[row[t,k]]
void decode_weighted(const at::Tensor& rows_RD, const at::Tensor& weight_TK, const at::Tensor& row_TK,
                     const at::Tensor& y_TD);

// dw[t,k] = <x[t], rows[row[t,k]]>, 0 without a route.
void pair(const at::Tensor& x_TD, const at::Tensor& rows_RD, const at::Tensor& row_TK, const at::Tensor& dw_TK);

}  // namespace plait::kernels
