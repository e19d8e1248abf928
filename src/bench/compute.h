// What one rank computes while all ranks do: products of experts, memory, and the way from one op to the next.
#pragma once
#include "machine/measured.h"
#include "tune/group_clock.h"

namespace plait {

struct ComputeRequest {
  struct Matrix {
    int64_t columns, inner;
  };
  std::vector<int64_t> rows = {8, 32, 128, 512};
  std::vector<Matrix> matrices = {{256, 256}, {2048, 512}, {512, 2048}, {1024, 1024}};
  int64_t floats = int64_t{4} << 20;  // of each array that the memory is measured with: beyond a rank's cache
  // Rows much longer than a core's turn: with more ranks than cores each would else be timed while the others wait.
  Repeats repeats = {.seconds = 0.2, .least = 3, .most = 5, .row = 30e-3};
  std::function<void(const std::string& what)> begin = {};  // told at every rank, before each part
};

// How often `begin` is called.
int num_parts(const ComputeRequest& request);

// Two points of the curve: rows of an expert times its matrix, forward and backward together, and the gradient of the
// matrix. A few experts take turns where they have few rows each, so that their matrices come from memory.
std::vector<ProductPoint> measure_products(GroupClock& clock, int64_t rows, ComputeRequest::Matrix matrix,
                                           Repeats repeats);

// Bytes read and written per second: sums of two arrays into a third.
double memory_rate(GroupClock& clock, int64_t floats, Repeats repeats);

// Seconds that an op of a schedule takes which computes next to nothing.
double op_start(GroupClock& clock, Repeats repeats);

// `products`, `memory_bytes` and `start`.
void measure_compute(GroupClock& clock, const ComputeRequest& request, Measured& measured);

}  // namespace plait
