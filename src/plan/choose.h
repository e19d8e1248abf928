// Which schedule of an MoE layer is fastest on a machine: every family that computes the same function, with or without
// fused messages, in 1 to 8 chunks forward and backward, costed and performed in thought.
#pragma once
#include <string>

#include "layers/sizes.h"
#include "plan/cost.h"

namespace plait {

enum class Fuse { no, yes };

struct Candidate {
  Family family = Family::sharded;
  Fuse fuse = Fuse::no;
  int64_t chunks = 1, chunks_backward = 1;
  int64_t parts() const { return chunks + chunks_backward; }
  bool operator==(const Candidate&) const = default;
};
std::string to_string(const Candidate& candidate);  // "s1 fused, 2 chunks (4 backward)"
std::string_view name(Family family);

struct Choice {
  Candidate candidate;
  double seconds = 0;  // of the layer, forward and backward
};

ModelSizes with(ModelSizes sizes, const Candidate& candidate);

// Whether a layer of these sizes can be written so, and then computes what the one-rank reference of `sizes` does: with
// the same gate groups and the same capacity.
bool legal(const Mesh& mesh, const ModelSizes& sizes, const Candidate& candidate);

// All that are legal, in a fixed order. `ranks_per_node`: of the lanes of messages; 0: they travel in the rank's own
// thread, and in one chunk, since more never pay there.
std::vector<Candidate> candidates(const Mesh& mesh, const ModelSizes& sizes, int ranks_per_node);

// How long a lowered list takes, forward and backward. With lanes, in the order it has (see `overlapped`): a message
// is handed over to its lane, and it takes longer while others travel or its rank computes, as was measured.
double predicted_seconds(const Schedule& schedule, const Machine& machine, int ranks_per_node,
                         const LoadProfile& load = {});

// Predictions this close to the least one are as good as it.
inline constexpr double kAlike = 0.02;

// The place of the one in the fewest parts of those that are told to be as fast as the fastest, which comes first;
// told(choice) is its seconds and parts. REQUIRES one choice at least.
template <class Choices, class Told>
size_t plainest(const Choices& fastest_first, Told told) {
  size_t best = 0;
  for (size_t i = 1; i < fastest_first.size(); ++i) {
    const auto [seconds, parts] = told(fastest_first[i]);
    if (seconds <= (1 + kAlike) * told(fastest_first[0]).first && parts < told(fastest_first[best]).second) best = i;
  }
  return best;
}

// Of all candidates the plainest of those that are as good as the fastest, then the others, fastest first; of equals
// the one that `candidates` lists first. With lanes the list is in the order that overlaps best. REQUIRES sizes that
// have experts; a layer is priced alone, however many there are.
std::vector<Choice> choices(const Mesh& mesh, const ModelSizes& sizes, const Machine& machine, int ranks_per_node,
                            const LoadProfile& load = {});

// "s1 fused, 2 chunks: 8.10 ms; sharded: 8.40 ms; ..": the best of each family, in their order.
std::string summary(const std::vector<Choice>& choices);

}  // namespace plait
