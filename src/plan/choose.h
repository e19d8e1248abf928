// Which schedule of an MoE layer is fastest on a machine: every family that computes the same function, with or without
// fused messages, in 1 to 8 chunks forward and backward, costed and performed in thought.
#pragma once
#include <optional>
#include <string>

#include "model/moe_layer.h"
#include "plan/cost.h"
#include "plan/simulate.h"
#include "schedule/lanes.h"

namespace plait {

enum class Fuse { no, yes };

struct Candidate {
  const FamilySpec* family = &families::sharded;
  Fuse fuse = Fuse::no;
  int64_t chunks = 1, chunks_backward = 1;
  std::optional<NodeLanes> lanes = {};  // of messages; none: they travel in the rank's own thread
  int64_t parts() const { return chunks + chunks_backward + (lanes ? 1 : 0); }
  bool operator==(const Candidate&) const = default;
};
std::string to_string(const Candidate& candidate);  // "s1 fused, 2 chunks (4 backward), lanes"

struct Choice {
  Candidate candidate;
  double seconds = 0;   // of the layer, forward and backward, as predicted
  double measured = 0;  // the same, where it was tried; else 0
};

ModelSizes with(ModelSizes sizes, const Candidate& candidate);

// Of a model's MoE layer alone.
ModelSizes one_layer(ModelSizes sizes);

// The layer as a candidate runs it: alone, in the order that overlaps best where its messages have lanes.
MoeLayer layer_of(const Mesh& mesh, const ModelSizes& sizes, const Candidate& candidate, const Machine& machine);

// Whether a layer of these sizes can be written so, and then computes what the one-rank reference of `sizes` does: with
// the same gate groups and the same capacity.
bool legal(const Mesh& mesh, const ModelSizes& sizes, const Candidate& candidate);

// What stands to choose beside the layout.
struct Among {
  std::vector<const FamilySpec*> families = built_in().families;
  std::optional<NodeLanes> lanes = {};
  LoadProfile load = {};
};

// All that are legal, in a fixed order: without lanes, where more chunks than one never pay; and with lanes, where
// these stand to choose.
std::vector<Candidate> candidates(const Mesh& mesh, const ModelSizes& sizes, const Among& among);

// How long a lowered list takes, forward and backward. With lanes, in the order it has (see `overlapped`): a message
// is handed over to its lane, and it takes longer while others travel or its rank computes, as was measured.
double predicted_seconds(const Schedule& schedule, const Machine& machine, std::optional<NodeLanes> lanes,
                         const LoadProfile& load = {});
// The same over time: of one rank, as all are alike.
Timeline predicted_timeline(const Schedule& schedule, const Machine& machine, std::optional<NodeLanes> lanes,
                            const LoadProfile& load = {});

// Predictions this close to the least one are as good as it.
inline constexpr double kAlike = 0.05;

// Of all candidates the one in the fewest parts of those that are as good as the fastest, then the others, fastest
// first; of equals the one that `candidates` lists first. With lanes the list is in the order that overlaps best.
// REQUIRES sizes that have experts; a layer is priced alone, however many there are.
std::vector<Choice> choices(const Mesh& mesh, const ModelSizes& sizes, const Machine& machine, const Among& among = {});

// What is worth trying before one is taken, at most `most`: the first, and of every kind (family, fused or not, lanes
// or not) the best one. None that is told to take half as long again as the first, and one of those that are told to
// take the same. `choices` as above.
std::vector<Choice> favourites(const std::vector<Choice>& choices, size_t most);

// What is worth trying then, of those that were not, in another number of chunks than those of their kind that were:
// predictions are taken to be as far off as those of their kind were.
std::vector<Choice> favourites_next(const std::vector<Choice>& choices, const std::vector<Choice>& tried, size_t most);

// Brings the one in the fewest parts of the first `alike` to the front; REQUIRES one.
void put_simplest_first(std::vector<Choice>& choices, size_t alike);

// "s1 fused, 2 chunks: 8.10 ms; sharded: 8.40 ms; ..": the best of each family, in their order; where some were tried
// those alone, with what was measured.
std::string summary(const std::vector<Choice>& choices);

}  // namespace plait
