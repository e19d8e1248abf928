// What travels beside what, on the simulated timeline of whole training steps; and that neither order nor buckets
// change a number.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "choices.h"
#include "corpus.h"
#include "plan/simulate.h"
#include "train/loop.h"
#include "verify/verify.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

// Two layers of experts on four ranks in two nodes, wide enough that products count.
Config four_ranks(const Overrides& more) {
  Overrides all = {"model.hidden_size=256",
                   "model.num_hidden_layers=2",
                   "moe.num_experts=4",
                   "moe.moe_intermediate_size=512",
                   "train.batch_size=16",
                   "mesh.tp=2",
                   "mesh.ep=2",
                   "mesh.node=2",
                   "schedule.lanes=true"};
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all);
}

struct Played {
  Schedule schedule;
  Timeline timeline;

  const TimeSpan& span(int step) const {
    return *std::ranges::find_if(timeline.spans, [&](const TimeSpan& s) { return s.step == step; });
  }
};

// A wire on which messages take about as long as products.
Machine slow_wire(int ranks_per_node) {
  Machine machine = default_machine(ranks_per_node);
  for (Level& level : machine.levels)
    for (MessageCost& cost : level.cost) cost.beta *= 20;
  return machine;
}

// Predicted, rank 0; an order is made for the same machine.
Played play(const Config& config) {
  const Machine machine = slow_wire(static_cast<int>(config.mesh.node));
  RunShape shape = run_shape(config);
  if (shape.pace) shape.pace = machine;
  const Schedule s = build_step(shape).schedule;
  return {s, simulate(s, predicted(s, step_costs(s, check(s), machine)))};
}

double together(const TimeSpan& a, const TimeSpan& b) {
  return std::max(0.0, std::min(a.end, b.end) - std::max(a.start, b.start));
}

// A product whose result is the gradient of a parameter, before it is summed over ranks.
bool is_weight_gradient(const Schedule& s, const Step& step) {
  const auto of = s.cotangent_of.find(step.out[0]);
  if (!as<Einsum>(step.op) || of == s.cotangent_of.end()) return false;
  const auto entered = std::ranges::find_if(s.steps, [&](const Step& other) {
    return as<Move>(other.op) && std::ranges::find(other.out, of->second) != other.out.end();
  });
  const Leaf* leaf = entered == s.steps.end()
                         ? s.leaf(of->second)
                         : s.leaf(entered->in[std::ranges::find(entered->out, of->second) - entered->out.begin()]);
  return leaf && leaf->kind == LeafKind::parameter;
}

// Seconds in which a weight's gradient is computed while an exchange of the backward pass travels.
double filled(const Played& p) {
  double sum = 0;
  for (const TimeSpan& message : p.timeline.spans) {
    const Step& step = p.schedule.steps[message.step];
    if (p.schedule.title(step).find("exchange") == std::string::npos || !p.schedule.cotangent_of.count(step.out[0]))
      continue;
    for (const TimeSpan& product : p.timeline.spans)
      if (product.lane == kComputeLane && is_weight_gradient(p.schedule, p.schedule.steps[product.step]))
        sum += together(message, product);
  }
  return sum;
}

TEST(Overlap, fills_the_time_of_exchanges_with_gradients_of_weights) {
  for (const char* family : {"sharded", "s1", "s2", "dtd"}) {
    const std::string moe = std::string("schedule.moe=") + family;
    const Played written = play(four_ranks({moe})), other = play(four_ranks({moe, "schedule.order=overlap"}));
    EXPECT_GT(filled(other), 1.2 * filled(written)) << family;
    EXPECT_LT(other.timeline.makespan, written.timeline.makespan) << family;
  }
}

// The messages that sum gradients, and when the last product of the step ends.
TEST(Overlap, sends_the_first_bucket_of_gradients_before_the_backward_pass_ends) {
  const auto first_sum = [](const Played& p) {
    double first = p.timeline.makespan, last = 0;
    const TrainingStep step{.schedule = p.schedule};
    for (const TimeSpan& span : p.timeline.spans) {
      const Step& st = p.schedule.steps[span.step];
      const auto of = p.schedule.cotangent_of.find(st.out[0]);
      const Leaf* leaf = of == p.schedule.cotangent_of.end() ? nullptr : p.schedule.leaf(of->second);
      if (span.lane != kComputeLane && leaf && leaf->kind == LeafKind::parameter) first = std::min(first, span.start);
      if (as<Einsum>(st.op)) last = std::max(last, span.end);
    }
    return last - first;
  };
  const Overrides bucket = {"schedule.order=overlap", "schedule.bucket=0.25"};
  const Played one = play(four_ranks({"schedule.order=overlap"})), many = play(four_ranks(bucket));
  EXPECT_GT(first_sum(many), 0.2 * many.timeline.makespan);
  EXPECT_GT(first_sum(many), first_sum(one));
  EXPECT_LE(many.timeline.makespan, one.timeline.makespan);
}

// The way back of s2: while a chunk is exchanged between nodes, the chunk before is joined within each.
// Shares of parameters come while the first products run, and gradients leave in shares before the last ones end.
TEST(Overlap, gathers_and_scatters_shares_beside_products) {
  const auto beside = [](const Played& p, Collective kind) {
    double sum = 0;
    for (const TimeSpan& message : p.timeline.spans) {
      const Step& st = p.schedule.steps[message.step];
      const auto of = p.schedule.cotangent_of.find(st.out[0]);
      const Leaf *from = p.schedule.leaf(st.in[0]),
                 *to = of == p.schedule.cotangent_of.end() ? nullptr : p.schedule.leaf(of->second);
      const bool parameter = (from && from->kind == LeafKind::parameter) || (to && to->kind == LeafKind::parameter);
      if (!as<Move>(st.op) || !parameter || collective(std::get<Move>(st.op).legs) != kind) continue;
      for (const TimeSpan& product : p.timeline.spans)
        if (as<Einsum>(p.schedule.steps[product.step].op)) sum += together(message, product);
    }
    return sum;
  };
  const Played whole = play(four_ranks({"mesh.dp=4", "memory.zero=1"}));
  const Played cut = play(four_ranks({"mesh.dp=4", "memory.zero=1", "schedule.order=overlap", "schedule.bucket=0.5"}));
  for (Collective kind : {Collective::all_gather, Collective::reduce_scatter})
    EXPECT_GT(beside(cut, kind), 1.5 * beside(whole, kind) + 1e-9);
  EXPECT_LT(cut.timeline.makespan, whole.timeline.makespan);
}

TEST(Overlap, joins_a_chunk_while_the_next_one_travels_between_nodes) {
  for (const char* capacity : {"none", "1.0"}) {
    const Played p = play(four_ranks({"schedule.moe=s2", "schedule.chunks=4", "schedule.order=overlap",
                                      std::string("moe.capacity=") + capacity, "train.seq_length=256"}));
    int beside = 0, joins = 0;
    for (const TimeSpan& join : p.timeline.spans) {
      const Step& step = p.schedule.steps[join.step];
      if (p.schedule.title(step) != "join" || p.schedule.names[step.out[0]].find(".join") == std::string::npos)
        continue;
      if (p.schedule.names[step.out[0]].starts_with("l") && join.lane == static_cast<int>(Lane::intra)) {
        ++joins;
        beside += std::ranges::any_of(p.timeline.spans, [&](const TimeSpan& other) {
          return other.lane == static_cast<int>(Lane::inter) && together(join, other) > 0.5 * (join.end - join.start);
        });
      }
    }
    EXPECT_EQ(joins, 2 * 4) << capacity;
    EXPECT_GE(beside, 2 * 3) << capacity;
  }
}

Overrides small(const std::string& family, int chunks) {
  return {"model.hidden_size=16",
          "model.num_hidden_layers=2",
          "moe.num_experts=4",
          "train.batch_size=8",
          "train.seq_length=8",
          "moe.moe_intermediate_size=16",
          "mesh.tp=2",
          "mesh.ep=2",
          "mesh.node=2",
          "schedule.lanes=true",
          "schedule.moe=" + family,
          fmt::format("schedule.chunks={}", chunks)};
}

Config small_config(const std::string& family, int chunks, const Overrides& more) {
  Overrides all = small(family, chunks);
  all.insert(all.end(), more.begin(), more.end());
  return ready_config("", all);
}

const Overrides kOrdered = {"schedule.order=overlap", "schedule.bucket=0.001"};

std::map<std::string, at::Tensor> trained(const Config& config) {
  const data::Corpus corpus = random_corpus();
  std::map<std::string, at::Tensor> result;
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    Trainer trainer(config, run_shape(config), corpus, {rank, &world, at::kFloat});
    for (int step = 0; step < 3; ++step) trainer.step(step, 1e-2);
    for (const Parameter& p : trainer.schedule().parameters) {
      const at::Tensor whole = trainer.whole(p.name);
      if (rank == 0) result[p.name] = whole.clone();
    }
  });
  return result;
}

TEST(Overlap, changes_no_bit_of_a_run) {
  for (const char* family : {"ted", "dtd", "s1", "s2", "sharded"})
    for (int chunks : {1, 2}) {
      const auto plain = trained(small_config(family, chunks, {})),
                 other = trained(small_config(family, chunks, kOrdered));
      for (const auto& [name, tensor] : plain) EXPECT_TRUE(at::equal(tensor, other.at(name))) << family << " " << name;
    }
}

TEST(Overlap, changes_no_bit_of_accumulated_micro_batches) {
  const Overrides micro = {"train.micro_batch_size=2"},
                  ordered = {"train.micro_batch_size=2", "schedule.order=overlap"};
  const auto plain = trained(small_config("s2", 2, micro)), other = trained(small_config("s2", 2, ordered));
  for (const auto& [name, tensor] : plain) EXPECT_TRUE(at::equal(tensor, other.at(name))) << name;
}

TEST(Overlap, agrees_with_one_rank) {
  const data::Corpus corpus = random_corpus();
  for (const char* family : {"s2", "sharded"}) {
    EXPECT_EQ(near_choice(small_config(family, 2, kOrdered), corpus), "");
    const VerifyReport report = verify(small_config(family, 2, kOrdered), corpus);
    EXPECT_TRUE(report.agrees()) << family << " " << report.largest();
  }
}

}  // namespace
}  // namespace plait
