#include "bench/live_bytes.h"

#include <algorithm>
#include <map>

#include "base/errors.h"

namespace plait {
namespace {

// From the step that makes it to the last one that reads it or a view of it.
struct Life {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

}  // namespace

int64_t live_bytes(const Executor& executor, const std::vector<ValueId>& kept) {
  const Schedule& s = executor.schedule();
  expects(!s.repeat || s.repeat->first == s.repeat->last, "live_bytes: a list that repeats nothing");
  const int end = static_cast<int>(s.steps.size());
  std::map<const void*, Life> lives;  // by the memory's address
  const auto memory = [&](ValueId v) { return static_cast<const void*>(executor.value(v).storage().data()); };
  std::vector<const void*> persistent;
  for (const Leaf& leaf : s.leaves) persistent.push_back(memory(leaf.value));
  for (int i = 0; i < end; ++i) {
    for (ValueId v : s.steps[i].out) {
      Life& life = lives.try_emplace(memory(v), Life{.first = i}).first->second;
      life.bytes = std::max<int64_t>(life.bytes, static_cast<int64_t>(executor.value(v).nbytes()));
      life.last = i;
    }
    for (ValueId v : s.steps[i].in)
      if (auto it = lives.find(memory(v)); it != lives.end()) it->second.last = i;
  }
  for (const std::vector<ValueId>& values : {kept, s.outputs})
    for (ValueId v : values)
      if (auto it = lives.find(memory(v)); it != lives.end()) it->second.last = end;
  for (const void* leaf : persistent) lives.erase(leaf);
  int64_t most = 0;
  for (int i = 0; i < end; ++i) {
    int64_t alive = 0;
    for (const auto& [at, life] : lives)
      if (life.first <= i && i <= life.last) alive += life.bytes;
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace plait
