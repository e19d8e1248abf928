#include "plan/memory.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "plan/scratch.h"
#include "plan/simulate.h"
#include "schedule/storage.h"

namespace plait {

std::string_view name(MemoryClass what) {
  constexpr std::string_view names[] = {"parameters",        "optimizer state",        "gradients",      "inputs",
                                        "activations, kept", "activations, transient", "message buffers"};
  return names[static_cast<size_t>(what)];
}

int64_t MemoryUse::states() const { return of(MemoryClass::parameters) + of(MemoryClass::optimizer); }

int64_t MemoryUse::total() const {
  return std::accumulate(dense.begin(), dense.end(), std::accumulate(expert.begin(), expert.end(), int64_t{0}));
}

MemoryUse operator+(MemoryUse a, const MemoryUse& b) {
  for (size_t c = 0; c < kMemoryClasses; ++c) {
    a.dense[c] += b.dense[c];
    a.expert[c] += b.expert[c];
  }
  return a;
}

namespace {

class Tagging {
 public:
  Tagging(const Schedule& s, const Types& types)
      : s_(s), types_(types), parameter_(s.names.size(), -1), tags_(s.names.size()), root_(s.names.size()) {
    std::iota(root_.begin(), root_.end(), 0);
  }

  std::vector<MemoryTag> run() {
    find_parameters();
    activations();
    find_experts();
    for (const Leaf& leaf : s_.leaves) tags_[leaf.value] = of_leaf(leaf);
    for (ValueId v = 0; v < static_cast<ValueId>(tags_.size()); ++v)
      if (parameter_[v] >= 0) tags_[v] = {MemoryClass::parameters, of_experts(parameter_[v])};
    for (const auto& [cotangent, of] : s_.cotangent_of)
      if (parameter_[of] >= 0) tags_[cotangent] = {MemoryClass::gradients, of_experts(parameter_[of])};
    return together();
  }

 private:
  MemoryTag of_leaf(const Leaf& leaf) const {
    const bool expert = of_experts(leaf.value);
    if (leaf.kind == LeafKind::parameter) return {MemoryClass::parameters, expert};
    if (leaf.kind == LeafKind::state) return {MemoryClass::optimizer, expert};
    return {MemoryClass::inputs, false};
  }

  // A parameter, and the same numbers held otherwise: cast, entered, gathered, seen with other dims.
  void find_parameters() {
    for (const Leaf& leaf : s_.leaves)
      if (leaf.kind == LeafKind::parameter) parameter_[leaf.value] = leaf.value;
    for (const Step& step : s_.steps) {
      if (as<Move>(step.op) || as<Cast>(step.op))
        for (size_t i = 0; i < step.out.size(); ++i) parameter_[step.out[i]] = parameter_[step.in[i]];
      for (const Sharing& share : sharing(s_.mesh, types_, step))
        if (share.how == Sharing::How::view) parameter_[step.out[share.out]] = parameter_[step.in[share.in]];
    }
  }

  // A parameter that meets rows is one of experts, and so are its moments.
  void find_experts() {
    for (const Step& step : s_.steps) {
      const bool rows = std::ranges::any_of(step.in, [&](ValueId v) { return tags_[v].expert; });
      for (ValueId v : step.in)
        if (rows && parameter_[v] >= 0) experts_.insert(parameter_[v]);
      if (as<AdamW>(step.op) && of_experts(step.in[0])) experts_.insert({step.in[2], step.in[3]});
    }
  }
  bool of_experts(ValueId leaf) const { return experts_.count(leaf) > 0; }

  // The way back begins at the first step that reads a given cotangent.
  int turn() const {
    for (size_t i = 0; i < s_.steps.size(); ++i)
      for (ValueId v : s_.steps[i].in)
        if (s_.leaf(v) && s_.cotangent_of.count(v)) return static_cast<int>(i);
    return static_cast<int>(s_.steps.size());
  }

  // By step: whether it belongs to the way there: it stands before the way back, makes a value that has a cotangent, or
  // what such a step reads. An order that overlaps puts single steps of the way back far ahead.
  std::vector<bool> ways_there(int back, const std::vector<int>& made) const {
    std::set<ValueId> answered;
    for (const auto& [cotangent, value] : s_.cotangent_of) answered.insert(value);
    std::vector<bool> there(s_.steps.size(), false);
    for (size_t i = there.size(); i-- > 0;) {
      const Step& step = s_.steps[i];
      there[i] = there[i] || static_cast<int>(i) < back ||
                 std::ranges::any_of(step.out, [&](ValueId v) { return answered.contains(v); });
      for (ValueId v : step.in)
        if (there[i] && made[v] >= 0) there[static_cast<size_t>(made[v])] = true;
    }
    return there;
  }

  void activations() {
    const std::vector<int> made = makers(s_);
    const int back = turn();
    const std::vector<bool> there = ways_there(back, made);
    for (size_t v = 0; v < tags_.size(); ++v) {
      const Type& type = types_[v];
      tags_[v].expert = type.role == Role::plain && type.has("C");
    }
    for (size_t i = static_cast<size_t>(back); i < s_.steps.size(); ++i)
      for (ValueId v : s_.steps[i].in)
        if (!there[i] && (made[v] < 0 || there[static_cast<size_t>(made[v])])) tags_[v].what = MemoryClass::kept;
  }

  ValueId root(ValueId v) const {
    while (root_[v] != v) v = root_[v];
    return v;
  }

  // Values in the same memory: the first of their classes.
  std::vector<MemoryTag> together() {
    for (const Step& step : s_.steps)
      for (const Sharing& share : sharing(s_.mesh, types_, step))
        if (share.how == Sharing::How::view) root_[root(step.out[share.out])] = root(step.in[share.in]);
    std::vector<MemoryTag> first = tags_;
    const auto earlier = [](MemoryTag a, MemoryTag b) { return a.what < b.what ? a : b; };
    for (size_t v = 0; v < tags_.size(); ++v) {
      MemoryTag& all = first[root(static_cast<ValueId>(v))];
      all = earlier(all, tags_[v]);
    }
    for (size_t v = 0; v < tags_.size(); ++v) tags_[v] = first[root(static_cast<ValueId>(v))];
    return tags_;
  }

  const Schedule& s_;
  const Types& types_;
  std::vector<ValueId> parameter_;  // by value: the leaf; -1: of no parameter
  std::set<ValueId> experts_;       // leaves
  std::vector<MemoryTag> tags_;
  std::vector<ValueId> root_;  // by value: another one in the same memory
};

// Bytes of an element, by value.
std::vector<int64_t> element_bytes(const Types& types, Item item) {
  std::vector<int64_t> bytes;
  for (const Type& type : types) bytes.push_back(item.of(type.dtype));
  return bytes;
}

constexpr int kPersistent = -1;  // the memory of leaves

// A piece of memory and how many values lie in it.
struct Piece {
  int64_t bytes = 0;
  MemoryTag tag;
  int values = 0;
};

// Walks the list as the executor does.
class Walk {
 public:
  Walk(const Schedule& s, const Types& types, const MemoryQuestion& question)
      : s_(s),
        types_(types),
        question_(question),
        tags_(memory_tags(s, types)),
        bytes_(element_bytes(types, question.item)),
        lives_(lifetimes(s, without_lanes(s), question.kept)),
        piece_(s.names.size(), kPersistent),
        rows_(s.mesh, question.rank, nullptr) {
    for (const Step& step : s.steps) sharing_.push_back(sharing(s.mesh, types, step));
  }

  MemoryPlan run() {
    start_micro(0);
    for (const Leaf& leaf : s_.leaves) now_.at(tags_[leaf.value]) += size(leaf.value);
    const std::vector<int> order = issue_order(s_);
    const Repeat repeat = s_.repeat.value_or(Repeat{});
    int micro = 0;
    for (size_t place = 0; place < order.size(); ++place) {
      const bool first = s_.repeat && order[place] == repeat.first;
      if (first) start_micro(micro++);
      if (micro > 0 && s_.repeat && order[place] == repeat.last)
        for (ValueId v : lives_.end_after_section) let_go(v);
      step(order[place], static_cast<int>(place));
    }
    return std::move(plan_);
  }

 private:
  void start_micro(int micro) {
    const auto& tables = question_.tables;
    const size_t at = std::min(static_cast<size_t>(micro), tables.empty() ? 0 : tables.size() - 1);
    rows_ = RowCounts(s_.mesh, question_.rank, tables.empty() ? nullptr : &tables[at]);
  }

  int64_t size(ValueId v) const { return elements(s_.mesh, types_[v], rows_) * bytes_[v]; }

  void let_go(ValueId v) { leave(std::exchange(piece_[v], kPersistent)); }

  void leave(int piece) {
    if (piece == kPersistent || --pieces_[piece].values > 0) return;
    now_.at(pieces_[piece].tag) -= pieces_[piece].bytes;
  }

  void put(ValueId v, int piece) {
    if (piece != kPersistent) ++pieces_[piece].values;
    leave(std::exchange(piece_[v], piece));
  }

  bool ends(int step, ValueId v) const {
    const int piece = piece_[v];
    return piece != kPersistent && pieces_[piece].values == 1 && std::ranges::count(lives_.ends[step], v) > 0;
  }

  // Rows of which the rank keeps some are a view only where these are one run.
  bool one_run(const Step& step, const Sharing& share) const {
    const Type &from = types_[step.in[share.in]], &to = types_[step.out[share.out]];
    if (from.jagged_index() < 0 || from.prefix() == to.prefix()) return true;
    const CellRows cells(box_of(s_.mesh, from.prefix(), question_.rank), rows_.cells(from).data());
    return cells.of(box_of(s_.mesh, to.prefix(), question_.rank)).size() == 1;
  }

  // Whether result `out` of a step finds its place in what is there.
  bool shares(int index, int out) {
    const Step& step = s_.steps[index];
    for (const Sharing& share : sharing_[index]) {
      const ValueId from = step.in[share.in], to = step.out[share.out];
      if (share.out != out) continue;
      if (share.how == Sharing::How::view && !one_run(step, share)) continue;
      if (share.how == Sharing::How::over) {
        if (!ends(index, from)) continue;
        retag(pieces_[piece_[from]], tags_[to]);
      }
      put(to, piece_[from]);
      return true;
    }
    return false;
  }

  void retag(Piece& piece, MemoryTag tag) {
    now_.at(piece.tag) -= piece.bytes;
    now_.at(tag) += piece.bytes;
    piece.tag = tag;
  }

  void step(int index, int place) {
    const Step& step = s_.steps[index];
    for (int out = 0; out < static_cast<int>(step.out.size()); ++out) {
      const ValueId v = step.out[out];
      if (shares(index, out)) continue;
      let_go(v);  // what lay under that name before, in an earlier micro-batch
      pieces_.push_back({size(v), tags_[v], 0});
      now_.at(tags_[v]) += pieces_.back().bytes;
      put(v, static_cast<int>(pieces_.size()) - 1);
    }
    const MemoryTag scratch{MemoryClass::scratch, tags_[step.out[0]].expert};
    const int64_t buffers = scratch_bytes({s_.mesh, question_.rank, step, types_, bytes_, rows_});
    now_.at(scratch) += buffers;
    note(index, place);
    now_.at(scratch) -= buffers;
    for (ValueId v : lives_.ends[index]) let_go(v);
  }

  void note(int index, int place) {
    plan_.curve.push_back(now_);
    if (place > 0 && now_.total() <= plan_.peak.total()) return;
    plan_.peak = now_;
    plan_.place = place;
    plan_.step = index;
  }

  const Schedule& s_;
  const Types& types_;
  const MemoryQuestion& question_;
  const std::vector<MemoryTag> tags_;
  const std::vector<int64_t> bytes_;  // of an element, by value
  const Lifetimes lives_;
  std::vector<std::vector<Sharing>> sharing_;  // by step
  std::vector<Piece> pieces_;
  std::vector<int> piece_;  // by value
  RowCounts rows_;
  MemoryUse now_;
  MemoryPlan plan_;
};

}  // namespace

std::vector<MemoryTag> memory_tags(const Schedule& schedule, const Types& types) {
  return Tagging(schedule, types).run();
}

MemoryPlan plan_memory(const Schedule& schedule, const Types& types, const MemoryQuestion& question) {
  return Walk(schedule, types, question).run();
}

}  // namespace plait
