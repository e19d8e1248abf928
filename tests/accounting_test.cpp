// What one MoE layer sends, forward and backward, on real ranks: calls and bytes counted by the wire are those that the
// types say, and where sizes are fixed those of the published formulas.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/random.h"
#include "checkpoint/gathered.h"
#include "checkpoint/parts.h"
#include "model/moe_layer.h"
#include "one_step.h"
#include "run/executor.h"
#include "schedule/testing/rows_sent.h"
#include "schedule/wire_bytes.h"
#include "wire/ranks.h"
#include "wire/record.h"

namespace plait {
namespace {

constexpr int kItem = 8;
constexpr Family kFamilies[] = {Family::ted, Family::dtd, Family::parm, Family::s1, Family::s2, Family::sharded};
const char* const kNames[] = {"ted", "dtd", "parm", "s1", "s2", "sharded"};

std::string name(Family family) { return kNames[static_cast<int>(family)]; }

// {ranks, tp, esp, ep}
constexpr MeshSize kLayouts[] = {{1, 1, 1, 1}, {4, 2, 2, 2}, {8, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4},
                                 {4, 1, 2, 2}, {4, 2, 1, 4}, {8, 2, 2, 4}, {8, 4, 4, 2}};

bool fits(Family family, const MeshSize& mesh) {
  return mesh.tp == mesh.esp || (family != Family::ted && family != Family::dtd);
}

// Hands out groups that count what goes through them; kinds as the wire names them.
class Counted final : public wire::World {
 public:
  Counted(wire::World& world, std::shared_ptr<wire::Traffic> traffic) : world_(world), traffic_(std::move(traffic)) {}
  int size() const override { return world_.size(); }
  void fail() override { world_.fail(); }
  wire::RankBoard& board(int rank) override { return world_.board(rank); }
  std::shared_ptr<wire::Group> group(int rank, std::vector<int> members, wire::Caller caller) override {
    return wire::record(world_.group(rank, std::move(members), caller), traffic_);
  }

 private:
  wire::World& world_;
  std::shared_ptr<wire::Traffic> traffic_;
};

struct Sent {
  double calls = 0, bytes = 0;  // calls of one rank; bytes of all ranks
};
using Record = std::array<Sent, 4>;  // all_reduce, all_gather, reduce_scatter, all_to_all
constexpr wire::Collective kWire[] = {wire::Collective::all_reduce, wire::Collective::all_gather,
                                      wire::Collective::reduce_scatter, wire::Collective::all_to_all};
constexpr const char* kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
size_t index_of(Collective c) { return static_cast<size_t>(c) - 1; }

// What was counted, and the tables of rows that the layer counted, whole.
struct Run {
  Record wire;
  std::map<std::string, std::vector<double>> tables;
};

at::Tensor leaf_value(const Leaf& leaf, const std::string& name, const Mesh& mesh) {
  std::vector<int64_t> shape;
  for (const Dim& dim : leaf.type.dims) shape.push_back(dim.size);
  if (name == "mask") return at::ones(shape, at::kLong);
  if (name == "ids") return at::full(shape, 3, at::kLong);
  if (name == "inv_tokens" || name == "share") return at::full(shape, 0.5, at::kDouble);
  const at::Tensor x = at::full(shape, 0, at::kDouble);
  const uint64_t key = random_key(3, name);
  for (int64_t i = 0; i < x.numel(); ++i) x.data_ptr<double>()[i] = normal(key, static_cast<uint64_t>(i));
  return x;
}

Run perform(const MoeLayer& layer) {
  const Schedule& s = layer.schedule;
  std::vector<wire::Traffic> traffic(static_cast<size_t>(s.mesh.ranks()));
  std::map<std::string, std::vector<at::Tensor>> tables;
  Keep keep;
  std::map<std::string, ValueId> counted;
  for (const Step& step : s.steps)
    if (const auto* count = as<Count>(step.op)) {
      keep.values.push_back(step.out[0]);
      counted[count->routing.id] = step.out[0];
      tables[count->routing.id].resize(static_cast<size_t>(s.mesh.ranks()));
    }
  std::mutex mutex;
  wire::run_ranks({.ranks = s.mesh.ranks()}, [&](int rank, wire::World& world) {
    const auto mine = std::make_shared<wire::Traffic>();
    Counted watched(world, mine);
    Executor executor(s, {rank, &watched, at::kDouble}, keep);
    const auto part = [&](const Leaf& leaf) {
      const at::Tensor whole = leaf_value(leaf, s.names[leaf.value], s.mesh);
      return part_of(whole, leaf.type, StepTypes{s.mesh, rank, {}, {}, whole.scalar_type()}).contiguous();
    };
    for (const Leaf& leaf : s.leaves)
      if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
        executor.bind(s.names[leaf.value], part(leaf));
    executor.run([&](const std::string& leaf, int) { return part(*s.leaf(s.find(leaf))); });
    const std::lock_guard lock(mutex);
    traffic[static_cast<size_t>(rank)] = *mine;
    for (const auto& [id, v] : counted) tables[id][static_cast<size_t>(rank)] = executor.value(v).clone();
  });
  Run run;
  for (size_t k = 0; k < 4; ++k) {
    run.wire[k].calls = static_cast<double>(traffic[0][kWire[k]].calls);
    for (const wire::Traffic& t : traffic) run.wire[k].bytes += t[kWire[k]].bytes;
  }
  const Types types = check(s);
  for (const auto& [id, v] : counted) {
    const at::Tensor whole = gathered(s.mesh, types[v], tables[id]).to(at::kDouble).contiguous();
    run.tables[id] = {whole.const_data_ptr<double>(), whole.const_data_ptr<double>() + whole.numel()};
  }
  return run;
}

// The bytes that all ranks send of ragged rows, by the table of the run; of a chunk, its part of the table.
double row_bytes(const Schedule& s, const Type& from, const oracle::RaggedMove& move,
                 const std::vector<double>& whole) {
  std::vector<double> table = whole;
  if (const std::vector<Mark>& marks = from.dims.front().stack; !marks.empty() && !marks.back().is_atom()) {
    const size_t size = whole.size() / static_cast<size_t>(marks.back().parts),
                 first = size * static_cast<size_t>(marks.back().part);
    table.assign(whole.begin() + static_cast<long>(first), whole.begin() + static_cast<long>(first + size));
  }
  double rows = 0, width = kItem;
  for (const auto& row : oracle::rows_sent(s.mesh, move, table))
    for (double n : row) rows += n;
  for (size_t d = static_cast<size_t>(from.jagged_index()) + 1; d < from.dims.size(); ++d)
    width *= static_cast<double>(local_size(s.mesh, from.dims[d]));
  return rows * width;
}

Record by_type(const Schedule& s, const Run& run) {
  const Types types = check(s);
  Record record;
  for (const Step& step : s.steps) {
    const WireCost cost = wire_cost(s, types, step, Item::all(kItem));
    if (cost.collective == Collective::none) continue;
    Sent& count = record[index_of(cost.collective)];
    count.calls += 1;
    for (size_t i = 0; i < step.out.size(); ++i) {
      const Type &from = types[step.in[i]], &to = types[step.out[i]];
      if (from.jagged_index() < 0) continue;
      const std::string& table = from.dims[static_cast<size_t>(from.jagged_index())].table;
      count.bytes +=
          row_bytes(s, from, {from.prefix(), to.prefix(), std::get<Move>(step.op).legs}, run.tables.at(table));
    }
    if (types[step.in[0]].jagged_index() < 0) count.bytes += cost.bytes * s.mesh.ranks();
  }
  return record;
}

ModelSizes sizes_of(Family family) {
  ModelSizes s{.sequences = 16, .positions = 4, .width = 4, .layers = 1};
  s.family = family;
  s.moe_every = 1;
  s.experts = 4;
  s.top_k = 2;
  s.expert_ffn = 8;
  s.aux_coef = 0.01;
  return s;
}

void expect_accounted(const std::function<void(ModelSizes&, const MeshSize&)>& with) {
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      ModelSizes sizes = sizes_of(family);
      with(sizes, mesh);
      const MoeLayer layer = build_moe_layer(Mesh(mesh), sizes);
      const Run run = perform(layer);
      const Record said = by_type(layer.schedule, run);
      for (size_t k = 0; k < 4; ++k) {
        const std::string what = fmt::format("{} {} on {} ranks, tp {} esp {} ep {}", name(family), kCollectives[k],
                                             mesh.ranks, mesh.tp, mesh.esp, mesh.ep);
        EXPECT_EQ(run.wire[k].calls, said[k].calls) << what;
        EXPECT_NEAR(run.wire[k].bytes, said[k].bytes, 1e-6) << what;
        if (mesh.ranks == 1) {
          EXPECT_EQ(run.wire[k].calls, 0) << what;
        }
      }
    }
}

// Slots of each expert for the tokens that one rank gates, all of them one group.
void give_room(ModelSizes& s, const MeshSize& mesh) {
  const int64_t all = s.tokens() / (mesh.ranks / mesh.tp);
  const bool sliced = s.family == Family::s1 || s.family == Family::sharded;
  s.group = s.family == Family::parm ? all * mesh.esp : sliced ? all / mesh.tp : all;
  s.capacity = s.group;
  s.drop = Drop::position;
}

TEST(Accounting, of_dropless_layers_is_what_the_types_say) {
  expect_accounted([](ModelSizes&, const MeshSize&) {});
}
TEST(Accounting, of_padded_layers_is_what_the_types_say) {
  expect_accounted([](ModelSizes& s, const MeshSize& mesh) {
    give_room(s, mesh);
    s.fuse = s.family == Family::s2 && mesh.tp > mesh.esp;  // which apart would cut slots inside other slots
  });
}
TEST(Accounting, of_fused_exchanges_is_what_the_types_say) {
  expect_accounted([](ModelSizes& s, const MeshSize&) {
    s.fuse = s.family == Family::s1 || s.family == Family::s2 || s.family == Family::sharded;
  });
}
TEST(Accounting, of_chunks_is_what_the_types_say) {
  expect_accounted([](ModelSizes& s, const MeshSize&) { s.chunks = 2; });
}

// Calls and elements that one rank sends: all_reduce, all_gather, reduce_scatter, all_to_all of tokens and rows,
// forward and backward.
struct Closed {
  double calls = 0, elements = 0;
};
using Formula = std::array<Closed, 4>;

// n tokens of a tp group, x = n D, m = E C D of the slots for them; q ranks keep (q - 1) / q.
Formula formula(const ModelSizes& s, const MeshSize& mesh) {
  const double tp = mesh.tp, esp = mesh.esp, ep = mesh.ep;
  const double n = static_cast<double>(s.tokens()) / (mesh.ranks / tp), x = n * static_cast<double>(s.width);
  const double m = static_cast<double>(s.experts) * n * static_cast<double>(s.width);  // C = n
  const auto f = [](double q) { return (q - 1) / q; };
  const auto some = [](double ranks, double calls, double each) {
    return ranks > 1 ? Closed{calls, calls * each} : Closed{};
  };
  const Closed none;
  switch (s.family) {
    case Family::ted: return {some(esp, 2, 2 * m * f(esp)), none, none, some(ep, 4, m * f(ep))};
    case Family::dtd: return {some(esp, 2, 2 * m * f(esp)), some(tp, 4, m * f(tp)), none, some(ep, 4, m / tp * f(ep))};
    case Family::s1: return {none, some(tp, 2, x * f(tp)), none, some(ep * esp, 4, m * esp / tp * f(ep * esp))};
    case Family::s2: return {none, some(tp, 2, m * f(tp)), none, some(ep * esp, 4, m * esp / tp * f(ep * esp))};
    case Family::parm:
      return {some(esp, 2, 2 * m * (esp - 1)), some(esp, 2, x * (esp - 1)), none, some(ep, 4, m * esp * f(ep))};
    case Family::sharded:
      return {none, some(esp, 2, m / tp * (esp - 1)), some(esp, 2, m / tp * (esp - 1)), some(ep, 4, m / tp * f(ep))};
  }
  return {};
}

// What the counted messages of one layer are without masks, losses and the sums of gradients.
Record without_gradients(const MoeLayer& layer, const Record& counted) {
  const Schedule& s = layer.schedule;
  const Types types = check(s);
  Record left = counted;
  for (const Step& step : s.steps) {
    const WireCost cost = wire_cost(s, types, step, Item::all(kItem));
    const Type& type = types[step.in[0]];
    if (cost.collective == Collective::none || (type.has("D") && (type.has("T") || type.has("C")))) continue;
    left[index_of(cost.collective)].calls -= 1;
    left[index_of(cost.collective)].bytes -= cost.bytes * s.mesh.ranks();
  }
  return left;
}

TEST(Accounting, of_every_family_is_the_published_formula) {
  for (const MeshSize& mesh : kLayouts)
    for (Family family : kFamilies) {
      if (!fits(family, mesh)) continue;
      ModelSizes sizes = sizes_of(family);
      give_room(sizes, mesh);
      sizes.fuse = family == Family::s1 || family == Family::s2;
      const MoeLayer layer = build_moe_layer(Mesh(mesh), sizes);
      const Record counted = without_gradients(layer, perform(layer).wire);
      const Formula closed = formula(sizes, mesh);
      for (size_t k = 0; k < 4; ++k) {
        const std::string what = fmt::format("{} {} on {} ranks, tp {} esp {} ep {}", name(family), kCollectives[k],
                                             mesh.ranks, mesh.tp, mesh.esp, mesh.ep);
        EXPECT_EQ(counted[k].calls, closed[k].calls) << what;
        EXPECT_NEAR(counted[k].bytes, closed[k].elements * kItem * mesh.ranks, 1e-6) << what;
      }
    }
}

// Bytes that one rank sends to other nodes, two ranks a node, forward and backward: 8 tokens of width 4 for each tp
// group, 4 experts, float64. Fused messages cost what the gather inside a node would have saved.
TEST(Accounting, between_nodes_is_what_the_families_are_known_for) {
  const MeshSize mesh{8, 2, 2, 4};
  enum class Messages { apart, fused };
  const auto between_nodes = [&](Family family, Messages messages) {
    ModelSizes sizes = sizes_of(family);
    sizes.sequences = 8;
    give_room(sizes, mesh);
    sizes.fuse = messages == Messages::fused;
    const MoeLayer layer = build_moe_layer(Mesh(mesh), sizes);
    const Types types = check(layer.schedule);
    double bytes = 0;
    for (const Step& step : layer.schedule.steps) {
      const WireCost cost = wire_cost(layer.schedule, types, step, Item::all(kItem));
      if (cost.collective != Collective::all_to_all) continue;
      const std::vector<int> group = layer.schedule.mesh.group(0, wire_atoms(std::get<Move>(step.op).legs));
      const auto far = std::ranges::count_if(group, [](int rank) { return rank / 2 != 0; });
      bytes += cost.bytes * static_cast<double>(far) / static_cast<double>(group.size() - 1);
    }
    return bytes;
  };
  EXPECT_EQ(between_nodes(Family::ted, Messages::apart), 2 * 1536);
  EXPECT_EQ(between_nodes(Family::dtd, Messages::apart), 2 * 768);
  EXPECT_EQ(between_nodes(Family::sharded, Messages::apart), 2 * 768);
  EXPECT_EQ(between_nodes(Family::parm, Messages::apart), 4 * 1536);
  for (Family family : {Family::s1, Family::s2}) {
    EXPECT_EQ(between_nodes(family, Messages::fused), 2 * 1536);
    EXPECT_EQ(between_nodes(family, Messages::apart), 2 * 768);
  }
}

}  // namespace
}  // namespace plait
