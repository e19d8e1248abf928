// How fast a rank multiplies: the size of a product in a list, and its rate on a machine.
#pragma once
#include "machine/machine.h"
#include "schedule/schedule.h"

namespace plait {

// `batch` products [rows, inner] x [inner, columns] of one rank, such as one for each of its experts.
struct ProductSize {
  double batch = 1, rows = 1, columns = 1, inner = 1;
  double flops() const { return 2 * batch * rows * columns * inner; }
};

// Of an einsum; ragged rows at their expected number.
ProductSize product_size(const Mesh& mesh, const Step& step, const Types& types);

// Operations per second: between the measured points, each by its nearness in the logarithms of the three sizes.
// Without points the machine's one rate.
double product_rate(const Machine& machine, const ProductSize& size);

}  // namespace plait
