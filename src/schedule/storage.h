// Where the results of a step lie, and how long values live. The executor hands out memory by it, and the plan counts
// memory by it, so that the two agree.
#pragma once
#include <vector>

#include "schedule/lanes.h"

namespace plait {

// Where the results of a step lie for these types. An update in place is a view.
std::vector<Sharing> sharing(const Mesh& mesh, const Types& types, const Step& step);

// A value ends where the rules of lanes say: without lanes with its last reader, or where nobody reads it with the step
// that makes it. One made before a repeated section and last read in it ends after the section. Leaves, outputs and the
// values of `kept` do not end.
struct Lifetimes {
  std::vector<std::vector<ValueId>> ends;  // by step: what ends after it
  std::vector<ValueId> end_after_section, end_with_list;
};
Lifetimes lifetimes(const Schedule& schedule, const std::vector<Lane>& lanes, const std::vector<ValueId>& kept);

// Everything computes.
std::vector<Lane> without_lanes(const Schedule& schedule);

}  // namespace plait
