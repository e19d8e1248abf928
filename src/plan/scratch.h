// The buffers that a step needs beside operands and results while it runs: parts of a message that do not lie in order
// are packed before they are sent, or unpacked after they have come; several values in one message always are.
#pragma once
#include "plan/rows.h"
#include "schedule/schedule.h"

namespace plait {

struct StepOnRank {
  const Mesh& mesh;
  int rank;
  const Step& step;
  const Types& types;
  const std::vector<int64_t>& item;  // bytes of an element, by value
  const RowCounts& rows;
};

int64_t scratch_bytes(const StepOnRank& at);

}  // namespace plait
