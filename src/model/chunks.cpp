#include "model/chunks.h"

#include "passes/rewrite.h"

namespace plait {
namespace {

int size(const Schedule& schedule) { return static_cast<int>(schedule.steps.size()); }

int together(const ModelSizes& sizes, int64_t messages) { return static_cast<int>(sizes.parts() / messages); }

}  // namespace

Schedule in_chunks(const Schedule& forward, const ModelSizes& sizes) {
  return join_chunks(forward, {0, size(forward), together(sizes, sizes.chunks)});
}

Differentiated in_chunks(Differentiated d, const ModelSizes& sizes) {
  d.schedule = join_chunks(d.schedule, {d.num_forward, size(d.schedule), together(sizes, sizes.backward_chunks())});
  const int before = size(d.schedule);
  d.schedule = join_chunks(d.schedule, {0, d.num_forward, together(sizes, sizes.chunks)});
  d.num_forward -= before - size(d.schedule);
  return d;
}

}  // namespace plait
