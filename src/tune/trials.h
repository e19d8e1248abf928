// The favourites of a choice, run on the ranks themselves: a prediction tells which schedules come into question, a few
// runs of a layer which of them is fastest here.
#pragma once
#include <functional>
#include <string>

#include "plan/choose.h"
#include "run/executor.h"

namespace plait {

struct TrialLayer {
  const Mesh& mesh;
  const ModelSizes& sizes;
  const Machine& machine;                                                // that lists on lanes are ordered for
  const std::vector<const FamilySpec*>& families = built_in().families;  // of all choices
  size_t most = 16;                                                      // schedules to try
  double seconds = 3;         // to look at those near the fastest; large layers take longer
  int64_t bytes = INT64_MAX;  // that layers may take of a rank while they take turns; two of them do in any case
  std::function<bool(const Candidate&)> fits = {};  // asked at rank 0: what may be tried; all without it
};

// Measured so close to the fastest is as good as it.
inline constexpr double kAlikeTried = 0.01;

// Called at rank 0 with a line of what is tried now.
using TellTrial = std::function<void(const std::string& line)>;

// Rank 0's choices, of these families, at all. Every member calls it.
std::vector<Choice> of_first(wire::Group& everyone, const std::vector<Choice>& mine,
                             const std::vector<const FamilySpec*>& families = built_in().families);

// The favourites of the choices with what was measured: first the one in the fewest parts of those that are as good as
// the fastest, then the others, fastest first. The best of each kind run a few times, one after another; then others
// that look good after that; then those near the fastest, in turns; then those still near, for longer. Every rank of
// the world calls it with the same and gets the same; nothing where there are no two to try. Holds the parameters and
// buffers of at most six layers meanwhile.
std::vector<Choice> try_out(const std::vector<Choice>& choices, const TrialLayer& layer, RankContext context,
                            const TellTrial& tell = {});

}  // namespace plait
