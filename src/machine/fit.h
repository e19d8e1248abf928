// What messages cost, from messages that were timed.
#pragma once
#include <span>

#include "machine/machine.h"

namespace plait {

struct MessageSample {
  double bytes = 0;    // sent by one rank, as StepCost::wire_bytes counts them
  double seconds = 0;  // until the last rank of the group is done
};

struct MessageFit {
  MessageCost cost;
  double worst = 0;  // the largest |told / measured - 1| of a sample
};

// The line with the least squares of relative errors, neither number below 0; so small messages count like large ones.
// REQUIRES samples of different sizes, or at least one; all of them take time.
MessageFit fit_messages(std::span<const MessageSample> samples);

}  // namespace plait
