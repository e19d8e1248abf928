// What is told of a training step before it runs, and two of them side by side.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "machine/machine_of.h"
#include "plan/cost.h"
#include "plan/memory.h"
#include "plan/simulate.h"

namespace plait {

struct StepPlan {
  Planned run;
  Schedule schedule;
  std::vector<StepCost> costs;  // by step
  Timeline timeline;            // of one rank, as all are alike
};
StepPlan plan_step(const Planned& run, const LoadProfile& load = {});

// What a rank sends, by collective and level, as a table.
std::string traffic_text(const StepPlan& plan);

// The chain of steps that the step's time consists of: what it adds up to, and its kinds of step, longest first.
std::string critical_path_text(const StepPlan& plan);

// A number that is told of a step: "sent", "all_gather, node", in "bytes".
struct Figure {
  std::string what, kind, unit;
  double value = 0;
  bool is(const Figure& other) const { return what == other.what && kind == other.kind; }
};

// Seconds of the step, of its critical path and by kind of step; messages and bytes that a rank sends, by collective
// and level; bytes that a rank holds at most, by class.
std::vector<Figure> figures(const StepPlan& plan);

// One row a figure that any of them has, with a column for each; of two also the second / the first.
std::string figures_text(const std::vector<std::vector<Figure>>& plans);
// The same as comma-separated values, in seconds and bytes: "what,kind,unit,A,B,ratio".
std::string figures_csv(const std::vector<std::vector<Figure>>& plans);

}  // namespace plait
