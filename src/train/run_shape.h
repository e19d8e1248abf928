// What a run is made of, from its config: ranks and their grids, sizes, optimizer, micro-batches, the step they
// perform.
#pragma once
#include <optional>

#include "data/batch.h"
#include "data/corpus.h"
#include "kernels/cpu/optimizer.h"
#include "launch/rank_options.h"
#include "machine/machine_of.h"
#include "model/step.h"
#include "schedule/lanes.h"

namespace plait {

// What a run needs to know besides the config. The one-rank reference of a layout differs from it in the mesh and in
// what follows from that.
struct RunShape {
  Mesh mesh;
  ModelSizes sizes;
  Optimizer optimizer;
  int num_micro = 1;
  int64_t bucket = 0;              // elements of gradients in a message; 0: all
  std::optional<NodeLanes> lanes;  // of messages
  std::optional<Machine> pace;     // the list in the order that overlaps best there; none: as written
  int64_t tile = kernels::kTile;
};
RunShape run_shape(const Planned& run);
Mesh mesh_of(const Config& config);
// The same numbers on one rank: same micro-batches, gate groups and capacity.
RunShape one_rank(const RunShape& shape);
// The sizes of what evaluation computes at once: a micro-batch, or fewer sequences where nothing is dropped and a
// training step keeps fewer rows than that, so that it needs no more memory; at least one for each data rank.
ModelSizes evaluated_at_once(const RunShape& shape);
// The step that a run of this shape performs.
TrainingStep build_step(const RunShape& shape);

// What the ranks of a config are told; they are named by their coordinates.
launch::RankOptions rank_options(const Config& config);

at::ScalarType dtype_of(const Config& config);

data::CorpusSource corpus_source(const Config& config);

// How the batches of a run are cut.
data::BatchPlan batch_plan(const Config& config, const RunShape& shape);

}  // namespace plait
