// Messages of neighbouring chunks become one: a pipeline of fewer, larger messages over the same products.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "passes/rewrite.h"

namespace plait {
namespace {

// The chunk that a value is a part of.
const Mark* chunk_of(const Type& type) {
  for (const Dim& dim : type.dims)
    for (const Mark& mark : dim.stack)
      if (!mark.is_atom()) return &mark;
  return nullptr;
}

// The chunk that all values of a step are parts of.
const Mark* chunk_of(const Step& step, const Types& types) {
  const Mark* chunk = chunk_of(types[step.in.front()]);
  const auto same = [&](ValueId v) {
    const Mark* other = chunk_of(types[v]);
    return chunk && other && *other == *chunk;
  };
  return std::all_of(step.in.begin(), step.in.end(), same) ? chunk : nullptr;
}

class JoinChunks {
 public:
  JoinChunks(const Schedule& schedule, const ChunkSection& section)
      : s_(schedule), section_(section), types_(check(schedule)), made_(makers(schedule)), done_(s_.steps.size()) {}

  Schedule run() {
    find_groups();
    out_.insert(out_.end(), s_.steps.begin(), s_.steps.begin() + section_.first);
    for (int i = section_.first; i < section_.last; ++i) emit(i);
    out_.insert(out_.end(), s_.steps.begin() + section_.last, s_.steps.end());
    Schedule out = s_;
    out.steps = std::move(out_);
    check(out);
    return out;
  }

 private:
  bool here(int step) const { return step >= section_.first && step < section_.last; }

  // The nth messages of neighbouring chunks go together, where their legs are the same.
  void find_groups() {
    std::map<std::pair<std::string, int>, int> messages;  // of each chunk so far
    std::map<std::string, std::vector<int>> groups;
    for (int i = section_.first; i < section_.last; ++i) {
      const Step& step = s_.steps[i];
      const Move* move = as<Move>(step.op);
      if (!move || collective(move->legs) == Collective::none) continue;
      const Mark* chunk = chunk_of(step, types_);
      if (!chunk) continue;
      const int nth = messages[{chunk->split, chunk->part}]++;
      groups[fmt::format("{} {} {}", chunk->split, nth, chunk->part / section_.together)].push_back(i);
    }
    for (const auto& [name, steps] : groups) {
      const bool alike =
          std::all_of(steps.begin(), steps.end(), [&](int i) { return s_.steps[i].op == s_.steps[steps[0]].op; });
      expects(alike && static_cast<int>(steps.size()) == section_.together, "chunks send the same messages");
      for (int i : steps) group_[i] = steps;
    }
  }

  // A step behind those that make what it reads.
  void emit(int index) {
    if (done_[index]) return;
    const auto group = group_.find(index);
    const std::vector<int> steps = group == group_.end() ? std::vector<int>{index} : group->second;
    Step all{s_.steps[index].op, {}, {}};
    for (int i : steps) {
      done_[i] = true;
      for (ValueId v : s_.steps[i].in)
        if (here(made_[v])) emit(made_[v]);
      all.in.insert(all.in.end(), s_.steps[i].in.begin(), s_.steps[i].in.end());
      all.out.insert(all.out.end(), s_.steps[i].out.begin(), s_.steps[i].out.end());
    }
    out_.push_back(std::move(all));
  }

  const Schedule& s_;
  const ChunkSection section_;
  const Types types_;
  const std::vector<int> made_;
  std::map<int, std::vector<int>> group_;  // step -> the steps that it travels with
  std::vector<bool> done_;
  std::vector<Step> out_;
};

}  // namespace

Schedule join_chunks(const Schedule& schedule, const ChunkSection& section) {
  return section.together == 1 ? schedule : JoinChunks(schedule, section).run();
}

}  // namespace plait
