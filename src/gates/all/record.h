// The gates of Plait, in the order in which they are listed: one line a gate, named like its folder.
#pragma once
#include "gates/spec.h"

#define PLAIT_GATES(GATE) \
  GATE(softmax)           \
  GATE(switch)            \
  GATE(gshard)            \
  GATE(sigmoid)           \
  GATE(expert_choice)     \
  GATE(base)              \
  GATE(hash)              \
  GATE(noisy_topk)

namespace plait {

// softmax_gate, switch_gate, ..: each defined in its folder's record.cpp.
#define PLAIT_GATE_RECORD(name) extern const GateSpec name##_gate;
PLAIT_GATES(PLAIT_GATE_RECORD)
#undef PLAIT_GATE_RECORD

const Gates& built_in_gates();

}  // namespace plait
