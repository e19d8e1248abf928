// Schedules are written, rewritten and differentiated without tables. This last pass gives every step whose meaning
// depends on which cell a row is in the table of its routing, and makes each table in each layout once, right after the
// count that it comes from: one exchange of counts per MoE layer forward, none backward.
#pragma once
#include "schedule/schedule.h"

namespace plait {

// Throws TypeFault where no relayout of a table gives the layout that a step needs.
Schedule lower(const Schedule& schedule);

// The list itself where its steps have their tables already, else lowered.
Schedule lowered(const Schedule& schedule);

}  // namespace plait
