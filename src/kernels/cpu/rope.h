// Rotary positions (Su et al. 2021) on queries and keys, in the order of halves that Llama's and Mixtral's weights
// expect: feature i turns with feature i + A/2 by the angle s * theta^(-2i/A) at position s.
#pragma once
#include <ATen/core/Tensor.h>

#include "schedule/choices.h"

namespace plait::kernels {

struct RopeTable {
  at::Tensor cos_Sa, sin_Sa;  // a = A/2
};

// For positions 0..S-1, in the element type of the values it will turn, float32 where these have 2 bytes.
RopeTable rope_table(int64_t positions, int64_t head_size, double theta, at::ScalarType dtype);

// y_BSHA may be x_BSHA itself. The gradient of `forward` is `inverse` (the turn is orthogonal).
void rope(const at::Tensor& x_BSHA, const RopeTable& table, Direction direction, const at::Tensor& y_BSHA);

}  // namespace plait::kernels
