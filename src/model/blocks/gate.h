// The gate of a mixture-of-experts block, what it leaves for the losses, and the losses of all gates.
#pragma once
#include "model/writer.h"

namespace plait {

// What a MoE layer leaves for the losses and the report: partial sums over the token atoms.
struct GateSums {
  ValueId psum = -1, zsum = -1;  // -1 where no coefficient is set
  ValueId chosen = -1, kept = -1;
  ValueId counted = -1;                // the routes that the auxiliary loss counts, where these are not all
  ValueId importance = -1, load = -1;  // of a noisy gate
  ValueId bias = -1;                   // the state of a sigmoid gate
  int64_t layer = 0;
};

// Tokens as the gate takes them.
ValueId to_gate(Writer& w, ValueId x);

// The routes of tokens [T, D] as the gate takes them.
struct Gated {
  ValueId weight, idx, slot;
  GateSums sums;
};
Gated write_gate(Writer& w, ValueId h, int64_t layer);

// Leaves the sums of all layers together, in one message where they are held alike; sets moe_layers, chosen, kept,
// biases and aux of the model.
void write_gate_losses(Writer& w, const std::vector<GateSums>& layers);

}  // namespace plait
