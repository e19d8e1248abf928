// Predicted beside measured seconds of every kind of step: where a plan is right about this machine, and where not.
#pragma once
#include <string>
#include <vector>

#include "plan/simulate.h"
#include "run/executor.h"

namespace plait {

// How long the steps of a list take on one rank: medians over runs.
class StepWatch {
 public:
  explicit StepWatch(const Schedule& schedule) : now_(schedule.steps.size(), 0), all_(schedule.steps.size()) {}

  void begin();
  void note(const Span& span);  // as often as the step runs; by one lane at a time
  void end();
  int runs() const { return runs_; }
  std::vector<double> medians() const;  // s, by step; REQUIRES a run

 private:
  std::vector<double> now_;
  std::vector<std::vector<double>> all_;  // by step, then run
  int runs_ = 0;
};

struct ExplainedKind {
  std::string kind;       // "einsum, experts", "exchange"
  int64_t steps = 0;      // of the list; a repeated one counts once
  double predicted = 0;   // s of a training step, all repeats together
  double wire_bytes = 0;  // likewise, sent by a rank
  double measured = 0;    // likewise, a rank's mean; of a message what the last one to come saw
};

struct Explanation {
  std::vector<ExplainedKind> kinds;  // longest first
  double waiting = 0;                // s in messages before the last of the group came, a rank's mean
  double predicted = 0;              // s of the whole training step
  double measured = 0;               // likewise, at rank 0, a median
};

// By the costs alone.
Explanation explain(const Schedule& schedule, const Machine& machine, std::optional<NodeLanes> lanes,
                    const LoadProfile& load = {});
// With what was measured: `medians` of this rank. Every rank of the group of all calls it and gets the same.
Explanation explain(Explanation predicted, const Schedule& schedule, const std::vector<double>& medians,
                    wire::Group& everyone);

}  // namespace plait
