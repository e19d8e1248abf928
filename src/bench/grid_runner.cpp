#include "bench/grid_runner.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/errors.h"
#include "base/random.h"
#include "base/statistics.h"
#include "plan/choose.h"
#include "plan/simulate.h"
#include "run/profile.h"
#include "schedule/text.h"
#include "train/texts.h"
#include "train/trainer.h"
#include "tune/layer_rank.h"
#include "tune/trials.h"

namespace plait {
namespace {

constexpr double kAgrees = 1e-4;    // of the norm: float32 sums in another order
constexpr double kRoundMs = 100;    // of one variant: so long, or a single step
constexpr int64_t kMostSteps = 20;  // in a round

std::string described(const Config& c, const ModelSizes& s) {
  std::string text(family_of(c).name);
  if (s.fuse) text += " fused";
  if (s.parts() > 1) text += fmt::format(", chunks {}/{}", s.chunks, s.backward_chunks());
  if (c.schedule.lanes) text += ", lanes";
  return text;
}

constexpr size_t kMostChoices = 12, kNamedChoices = 4;

LayerVariant variant_of(const Candidate& c, const std::string& name) {
  LayerVariant v{name, {fmt::format("schedule.moe={}", c.family->name)}};
  if (c.family->can_fuse()) v.keys.push_back(fmt::format("schedule.fuse={}", c.fuse == Fuse::yes ? "yes" : "no"));
  v.keys.push_back(fmt::format("schedule.chunks={}", c.chunks));
  v.keys.push_back(fmt::format("schedule.chunks_backward={}", c.chunks_backward));
  if (c.lanes)
    v.keys.insert(v.keys.end(), {"schedule.lanes=true", "schedule.order=overlap",
                                 fmt::format("mesh.node={}", c.lanes->ranks_per_node)});
  return v;
}

// +1 and -1, whole: the sum of a value's elements with these signs shows every difference but by an unlikely chance.
at::Tensor random_signs(at::IntArrayRef shape, const std::string& name) {
  const at::Tensor signs = at::empty(shape, at::kFloat);
  const uint64_t key = random_key(2, name);
  float* out = signs.data_ptr<float>();
  for (int64_t i = 0; i < signs.numel(); ++i) out[i] = hash64(key, static_cast<uint64_t>(i)) & 1 ? 1.0f : -1.0f;
  return signs;
}

std::vector<double> largest(wire::Group& world, const std::vector<double>& mine) {
  std::vector<double> most(mine.size(), 0);
  for (const std::vector<double>& theirs : of_all_ranks(world, mine))
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], theirs[i]);
  return most;
}

std::vector<double> sum(wire::Group& world, const std::vector<double>& mine) {
  std::vector<double> all(mine.size(), 0);
  for (const std::vector<double>& theirs : of_all_ranks(world, mine))
    for (size_t i = 0; i < all.size(); ++i) all[i] += theirs[i];
  return all;
}

// What a variant computed, as a few numbers: of the output and every gradient a sum with signs and the sum of squares.
struct Print {
  std::vector<double> sums, squares;
  double dropped = 0;
  int64_t capacity = 0, group = 0;

  // Whether the two computed the same, up to rounding.
  bool comparable(const Print& other) const {
    return (dropped == 0 && other.dropped == 0) || (capacity == other.capacity && group == other.group);
  }
  double differs(const Print& right) const {
    double most = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double d = std::abs(sums[i] - right.sums[i]) / std::sqrt(std::max(right.squares[i], 1e-30));
      most = std::isnan(d) ? INFINITY : std::max(most, d);
    }
    return most;
  }
};

// A variant on this rank. Without `layer` it cannot run, or its times are those of variant `same_as`.
struct Way {
  GridRow row;
  size_t same_as = 0;
  RunShape shape = {};
  std::string list = {};
  MoeLayer layer = {};
  Print print = {};
  int64_t steps = 1;  // in a round
  std::vector<double> rounds_ms = {};
};

class LayerGrid {
 public:
  LayerGrid(const GridLayer& layer, const GridSetting& setting, RankContext context)
      : layer_(layer), setting_(setting), context_(context), world_(wire::everyone(*context.world, context.rank)) {
    for (const LayerVariant& variant : family_variants(layer)) add(variant);
    if (setting.machine) add_choices();
  }

  GridResult run(const BetweenRounds& between) {
    look();
    for (int64_t round = 0; round < setting_.rounds; ++round) {
      one_round();
      if (between) between(*world_);
    }
    return result();
  }

 private:
  // What the prediction takes; what auto takes, which tries the favourites; and the next of them that are not measured
  // yet. Rank 0 chooses for all.
  void add_choices() {
    const RunShape shape = run_shape(grid_config(layer_, setting_, usual_variant()));
    const auto trials = static_cast<size_t>(setting_.trials);
    std::vector<Choice> all;
    if (context_.rank == 0) all = choices(shape.mesh, shape.sizes, *setting_.machine, {.lanes = setting_.lanes});
    all = of_first(*world_, all);
    const std::vector<Choice> tried = try_out(all,
                                              {.mesh = shape.mesh,
                                               .sizes = shape.sizes,
                                               .machine = *setting_.machine,
                                               .most = trials,
                                               .seconds = setting_.trial_seconds},
                                              context_);
    if (trials > 0) add(variant_of(all.front().candidate, "predicted"));
    all = tried.empty() ? favourites(all, kMostChoices) : tried;
    add(variant_of(all.front().candidate, "auto"));
    size_t named = 1;
    for (size_t i = 1; i < all.size() && named < kNamedChoices; ++i) {
      add(variant_of(all[i].candidate, fmt::format("auto {}", named + 1)));
      const bool measured = ways_.back().same_as + 1 < ways_.size();
      if (measured)
        ways_.pop_back();
      else
        ++named;
    }
  }

  void add(const LayerVariant& variant) {
    Way way{.row = {.variant = variant.name}, .same_as = ways_.size()};
    try {
      const Config config = grid_config(layer_, setting_, variant);
      way.shape = run_shape(config);
      way.row.schedule = described(config, way.shape.sizes);
      way.layer = build_moe_layer(way.shape.mesh, way.shape.sizes);
      if (config.schedule.order == StepOrder::overlap)
        way.layer.schedule = overlapped(way.layer.schedule, setting_.machine.value(), way.shape.lanes.value());
      const int node = way.shape.lanes ? way.shape.lanes->ranks_per_node : 0;
      way.list = fmt::format("{} lanes {}", print(way.layer.schedule), node);
    } catch (const InputError& error) {
      way.row.note = error.what();
    }
    const auto same = std::ranges::find(ways_, way.list, &Way::list);
    if (same != ways_.end()) way.same_as = static_cast<size_t>(same - ways_.begin());
    if (setting_.machine && !way.list.empty())
      way.row.predicted_ms = 1e3 * predicted_seconds(way.layer.schedule, *setting_.machine, way.shape.lanes);
    ways_.push_back(std::move(way));
  }

  // Those that run by themselves.
  std::vector<Way*> distinct() {
    std::vector<Way*> all;
    for (size_t i = 0; i < ways_.size(); ++i)
      if (!ways_[i].list.empty() && ways_[i].same_as == i) all.push_back(&ways_[i]);
    return all;
  }

  // Runs every way twice and compares what they computed.
  void look() {
    const std::vector<Way*> ways = distinct();
    expects(!ways.empty(), "a layer of the grid runs in some way");
    for (Way* way : ways) {
      Keep keep{{way->layer.y}};
      for (const auto& [name, gradient] : way->layer.gradients) keep.values.push_back(gradient);
      const std::unique_ptr<LayerRank> rank = made(*way, keep);
      const double second = largest(*world_, {step_ms(*rank)}).front();
      way->steps = std::clamp<int64_t>(std::ceil(kRoundMs / std::max(second, 1e-3)), 1, kMostSteps);
      way->print = printed(*way, *rank);
      compare(*way, *ways.front());
    }
  }

  // The layer as this rank runs it, after a first run.
  std::unique_ptr<LayerRank> made(const Way& way, Keep keep = {}) {
    RankContext context = context_;
    context.lanes = way.shape.lanes;
    auto rank = std::make_unique<LayerRank>(way.layer, way.shape.sizes, context, std::move(keep));
    rank->run();
    return rank;
  }

  void compare(Way& way, const Way& right) {
    if (!way.print.comparable(right.print)) {
      way.row.note = fmt::format("not compared: it drops other rows than {}", right.row.variant);
      return;
    }
    way.row.differs = way.print.differs(right.print);
    if (!(way.row.differs < kAgrees))
      throw ContractError(fmt::format("{}: {} differs from {} by {:.2g} of the norm", layer_.id, way.row.variant,
                                      right.row.variant, way.row.differs));
  }

  Print printed(const Way& way, const LayerRank& rank) {
    std::map<std::string, ValueId> values = way.layer.gradients;
    values["y"] = way.layer.y;
    const Executor& executor = rank.executor();
    std::vector<double> mine;
    for (const auto& [name, value] : values) {
      const at::Tensor& own = executor.value(value);
      const Type& type = executor.types()[value];
      double holders = 1;  // ranks that hold the same part
      for (Atom a = 0; a < way.shape.mesh.num_atoms(); ++a)
        if (type.place(a).hold != Hold::S) holders *= way.shape.mesh.size(a);
      const at::Tensor signs = rank.part(signs_of(name, type), value);
      const float *v = own.const_data_ptr<float>(), *s = signs.const_data_ptr<float>();
      double total = 0, squares = 0;
      for (int64_t i = 0; i < own.numel(); ++i) {
        total += static_cast<double>(v[i]) * s[i];
        squares += static_cast<double>(v[i]) * v[i];
      }
      mine.insert(mine.end(), {total / holders, squares / holders});
    }
    const std::vector<double> all = sum(*world_, mine);
    Print print{.capacity = way.shape.sizes.capacity, .group = way.shape.sizes.group};
    for (size_t i = 0; i < all.size(); i += 2) {
      print.sums.push_back(all[i]);
      print.squares.push_back(all[i + 1]);
    }
    print.dropped = elements(executor.value(way.layer.chosen)) - elements(executor.value(way.layer.kept));
    return print;
  }

  static double elements(const at::Tensor& counts) {
    const at::Tensor all = counts.to(at::kDouble);
    double total = 0;
    for (int64_t i = 0; i < all.numel(); ++i) total += all.const_data_ptr<double>()[i];
    return total;
  }

  const at::Tensor& signs_of(const std::string& name, const Type& type) {
    if (!signs_.contains(name)) {
      std::vector<int64_t> whole;
      for (const Dim& dim : type.dims) whole.push_back(dim.size);
      signs_[name] = random_signs(whole, name);
    }
    return signs_.at(name);
  }

  double step_ms(LayerRank& rank) {
    const Stretch step = together(*world_, [&] { rank.run(); });
    return ms(step.end - step.begin);
  }

  // Every way is made anew: where its memory lies and in which state its connections are moves its time by more than
  // the steps of a round differ. Every second round the other way about: what rises or falls over time favours none.
  void one_round() {
    std::vector<Way*> ways = distinct();
    if (round_++ % 2 == 1) std::ranges::reverse(ways);
    std::vector<double> mine;
    for (Way* way : ways) {
      const std::unique_ptr<LayerRank> rank = made(*way);
      for (int64_t i = 0; i < way->steps; ++i) mine.push_back(step_ms(*rank));
    }
    const std::vector<double> steps = largest(*world_, mine);
    auto next = steps.begin();
    for (Way* way : ways) {
      way->rounds_ms.push_back(quartiles({next, next + way->steps}).median);
      next += way->steps;
    }
  }

  GridResult result() {
    GridResult result{.layer = layer_, .rows = {}};
    for (const Way& way : ways_) {
      result.rows.push_back(way.row);
      if (way.list.empty()) continue;
      const Way& timed = ways_[way.same_as];
      GridRow& row = result.rows.back();
      const Quartiles times = quartiles(timed.rounds_ms);
      row.ms = times.median;
      row.low = times.low;
      row.high = times.high;
      row.differs = timed.row.differs;
      row.note = timed.row.note;
    }
    return result;
  }

  const GridLayer& layer_;
  const GridSetting& setting_;
  RankContext context_;
  std::shared_ptr<wire::Group> world_;
  Tensors signs_;
  std::vector<Way> ways_;
  int64_t round_ = 0;
};

}  // namespace

std::vector<LayerVariant> family_variants(const GridLayer& layer) {
  std::vector<const FamilySpec*> families = usual_last();
  std::ranges::stable_sort(families, {}, &FamilySpec::copies);
  std::vector<LayerVariant> all;
  for (const FamilySpec* family : families) {
    const std::string name(family->name), moe = "schedule.moe=" + name;
    if (family->esp_is_tp && layer.tp != layer.esp) continue;
    if (family->can_fuse()) all.push_back({name + " fused", {moe, "schedule.fuse=yes"}});
    if (family->can_fuse()) all.push_back({name, {moe, "schedule.fuse=no"}});
    if (!family->can_fuse()) all.push_back({name, {moe}});
  }
  return all;
}

LayerVariant usual_variant() { return {"", {fmt::format("schedule.moe={}", built_in().families.front()->name)}}; }

Config grid_config(const GridLayer& layer, const GridSetting& setting, const LayerVariant& variant) {
  const int64_t data_ranks = layer.ranks / layer.tp;
  std::vector<std::string> keys = {"model.num_hidden_layers=1",
                                   "model.num_attention_heads=4",
                                   "model.hidden_act=gelu",
                                   "model.glu=false",
                                   fmt::format("model.hidden_size={}", layer.width),
                                   fmt::format("moe.num_experts={}", layer.experts),
                                   fmt::format("moe.num_experts_per_tok={}", layer.top_k),
                                   fmt::format("moe.moe_intermediate_size={}", layer.hidden),
                                   fmt::format("moe.gate={}", layer.top_k == 1 ? "switch" : "softmax"),
                                   fmt::format("mesh.tp={}", layer.tp),
                                   fmt::format("mesh.esp={}", layer.esp),
                                   fmt::format("mesh.ep={}", layer.ep),
                                   fmt::format("mesh.dp={}", data_ranks),
                                   fmt::format("mesh.threads={}", setting.threads),
                                   fmt::format("train.seq_length={}", layer.positions),
                                   fmt::format("train.batch_size={}", layer.sequences * data_ranks)};
  // Rooms are shared by the tokens that the finest gate sees, so that all families drop the same.
  if (layer.factor > 0) {
    keys.push_back(fmt::format("moe.capacity={}", layer.factor));
    keys.push_back(fmt::format("moe.group={}", layer.tokens() / layer.tp));
  }
  keys.insert(keys.end(), setting.overrides.begin(), setting.overrides.end());
  keys.insert(keys.end(), variant.keys.begin(), variant.keys.end());
  const Config config = resolve(load_config("", keys, setting.launch));
  validate(config);
  return config;
}

GridResult bench_grid_layer(const GridLayer& layer, const GridSetting& setting, RankContext context,
                            const BetweenRounds& between) {
  return LayerGrid(layer, setting, context).run(between);
}

}  // namespace plait
