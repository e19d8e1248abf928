#include "bench/collectives.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errors.h"
#include "base/statistics.h"
#include "run/moves.h"

namespace plait {
namespace {

constexpr Collective kKinds[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                 Collective::all_to_all};
constexpr int64_t kGrowth = 2;
constexpr double kPairSeconds = 0.02;  // of each side of a pair
constexpr int kMostInRow = 100;

using GroupPtr = std::shared_ptr<wire::Group>;

// Where a message goes, and from where the world takes its tensors.
struct Way {
  wire::World* world;
  GroupPtr group;
};

// A message whose larger side has about `bytes` on each rank, the same at all.
class Message {
 public:
  Message(Collective kind, const Way& way, int64_t bytes) : kind_(kind), group_(way.group) {
    const RankContext context{.world = way.world};
    const int64_t n = group_->size(), part = std::max<int64_t>(1, (bytes / 4 + n - 1) / n);
    larger_ = context.zeros({n, part}, at::kFloat);
    if (kind == Collective::all_to_all) other_ = context.zeros({n, part}, at::kFloat);
    if (kind == Collective::all_gather || kind == Collective::reduce_scatter)
      other_ = context.zeros({part}, at::kFloat);
    rows_.assign(static_cast<size_t>(n), 1);
  }

  void send() const {
    switch (kind_) {
      case Collective::all_reduce: return group_->all_reduce({&larger_, 1});
      case Collective::all_gather: return group_->all_gather(other_, larger_);
      case Collective::reduce_scatter: return group_->reduce_scatter(larger_, other_);
      case Collective::all_to_all: return group_->all_to_all(larger_, other_, rows_, rows_);
      case Collective::none: expects(false, "a message has a kind");
    }
  }

  int64_t larger_bytes() const { return static_cast<int64_t>(larger_.nbytes()); }

  // As StepCost::wire_bytes counts.
  double wire_bytes() const {
    const double n = group_->size();
    return static_cast<double>(larger_bytes()) * (n - 1) / n * (kind_ == Collective::all_reduce ? 2 : 1);
  }

 private:
  Collective kind_;
  GroupPtr group_;
  at::Tensor larger_, other_;
  std::vector<int64_t> rows_;
};

class MessageBench {
 public:
  MessageBench(wire::World& world, GroupClock& clock, const CollectivesRequest& request)
      : world_(world), clock_(clock), request_(request) {}

  MeasuredGroup group(const Digits& digits) {
    MeasuredGroup measured{.digits = digits};
    const GroupPtr group = group_of(digits);
    for (Collective kind : kKinds) {
      begin(fmt::format("{}, groups of {}", name(kind), text(digits)));
      auto& samples = measured.samples[static_cast<size_t>(kind)];
      for (int64_t bytes = request_.least; bytes <= request_.most; bytes *= kGrowth) {
        const Message message(kind, {&world_, group}, bytes);
        samples.push_back({message.wire_bytes(), clock_.median([&] { message.send(); }, request_.repeats)});
        if (samples.back().seconds * kGrowth > request_.slowest) break;
      }
    }
    return measured;
  }

  // Both lanes send for about as long: many messages where one is short.
  PairCost pair(const ShapePair& shapes, Collective within_kind, const std::vector<MeasuredGroup>& groups) {
    begin(fmt::format("all_to_all, {}, beside {}, {}", text(shapes.across), name(within_kind), text(shapes.within)));
    const GroupPtr across = group_of(shapes.across, {.lane = 0, .lanes = 1}),
                   within = group_of(shapes.within, {.lane = 1, .lanes = 1});
    const Row first = row(across, cost_of(groups, shapes.across, Collective::all_to_all), Collective::all_to_all);
    const Row second = row(within, cost_of(groups, shapes.within, within_kind), within_kind);
    const std::vector<std::vector<double>> times =
        clock_.in_turns({[&] { first.send(); }, [&] { second.send(); },
                         [&] {
                           at_once(
                               world_, [&] { first.send(); }, [&] { second.send(); });
                         }},
                        request_.repeats);
    return {.first = shapes.across,
            .second = shapes.within,
            .first_kind = Collective::all_to_all,
            .second_kind = within_kind,
            .share = median(times[2]) / (median(times[0]) + median(times[1]))};
  }

 private:
  // Each thread of a rank calls groups of a lane of its own.
  GroupPtr group_of(const Digits& digits, wire::Caller caller = {}) {
    return world_.group(clock_.rank(), members(digits, clock_.rank()), caller);
  }

  void begin(const std::string& what) {
    if (request_.begin) request_.begin(what);
  }

  // Messages one after another.
  struct Row {
    Message message;
    int times;
    void send() const {
      for (int i = 0; i < times; ++i) message.send();
    }
  };

  static MessageCost cost_of(const std::vector<MeasuredGroup>& groups, const Digits& digits, Collective kind) {
    const MeasuredGroup& group = *std::ranges::find(groups, digits, &MeasuredGroup::digits);
    return fit_messages(group.samples[static_cast<size_t>(kind)]).cost;
  }

  // Messages as large as may be asked for that take kPairSeconds together.
  Row row(const GroupPtr& group, MessageCost cost, Collective kind) const {
    const double n = group->size(), larger = n / (n - 1);  // a byte sent stands for so many of the larger side
    const double sent = cost.beta > 0 ? std::max(0.0, kPairSeconds - cost.alpha) / cost.beta : INFINITY;
    const auto most = static_cast<double>(request_.most);
    const auto bytes = static_cast<int64_t>(std::clamp(sent * larger, static_cast<double>(request_.least), most));
    Message message(kind, {&world_, group}, bytes);
    const double seconds = cost.seconds(message.wire_bytes());
    return {std::move(message), std::clamp(static_cast<int>(std::round(kPairSeconds / seconds)), 1, kMostInRow)};
  }

  wire::World& world_;
  GroupClock& clock_;
  const CollectivesRequest& request_;
};

// The way to the experts gathers within the node, the way back scatters.
constexpr Collective kWithin[] = {Collective::all_gather, Collective::reduce_scatter};

// Short ones: in some of them nothing else wants the cores.
constexpr Repeats kShortTurns = {.seconds = 0.4, .least = 20, .most = 1000, .row = 2e-4};

// What a copy of as many bytes takes, from memory that this rank alone uses.
class Copy {
 public:
  explicit Copy(int64_t bytes) : from_(at::zeros({bytes / 4})), to_(at::zeros({bytes / 4})) {}
  void run() const { std::memcpy(to_.data_ptr(), from_.const_data_ptr(), from_.nbytes()); }

 private:
  at::Tensor from_, to_;
};

}  // namespace

int num_parts(int ranks, const CollectivesRequest& request) {
  return static_cast<int>(group_shapes(ranks).size() * std::size(kKinds) +
                          shape_pairs(ranks, request.per_node).size() * std::size(kWithin));
}

int num_sizes(const CollectivesRequest& request) {
  int sizes = 0;
  for (int64_t bytes = request.least; bytes <= request.most; bytes *= kGrowth) ++sizes;
  return sizes;
}

Measured measure_messages(wire::World& world, GroupClock& clock, const CollectivesRequest& request) {
  Measured measured{.ranks = clock.ranks(), .per_node = request.per_node};
  MessageBench bench(world, clock, request);
  for (const Digits& digits : group_shapes(measured.ranks)) measured.groups.push_back(bench.group(digits));
  for (const ShapePair& shapes : shape_pairs(measured.ranks, measured.per_node))
    for (Collective kind : kWithin) measured.pairs.push_back(bench.pair(shapes, kind, measured.groups));
  return measured;
}

std::vector<CopyTurn> compare_with_copies(wire::World& world, GroupClock& clock, const std::vector<int64_t>& sizes) {
  std::vector<CopyTurn> turns;
  const bool one_of_two = clock.rank() < 2;
  const GroupPtr pair = one_of_two ? world.group(clock.rank(), {0, 1}) : nullptr;
  for (Collective kind : {Collective::all_gather, Collective::all_to_all, Collective::all_reduce})
    for (int64_t bytes : sizes) {
      // Gathered and exchanged parts are written once; of a sum each rank writes its half to both.
      std::unique_ptr<Message> message;
      if (one_of_two) message = std::make_unique<Message>(kind, Way{&world, pair}, bytes);
      const Copy copy(one_of_two ? bytes : 4);
      const std::vector<std::vector<double>> times = clock.in_turns({[&] {
                                                                       if (message) message->send();
                                                                     },
                                                                     [&] {
                                                                       if (message) copy.run();
                                                                     }},
                                                                    kShortTurns);
      turns.push_back({kind, bytes, std::ranges::min(times[0]), std::ranges::min(times[1])});
    }
  return turns;
}

}  // namespace plait
