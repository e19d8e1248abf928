#include "bench/layer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/errors.h"
#include "bench/live_bytes.h"
#include "bench/plain_layer.h"
#include "bench/products.h"
#include "train/loop.h"
#include "tune/layer_rank.h"
#include "wire/ranks.h"

namespace plait {
namespace {

constexpr int kWarmUp = 2, kTries = 1;
constexpr double kAgrees = 1e-3;  // of the largest element: float32 sums over thousands of columns, in another order

Work work_of(const Step& step) {
  if (as<Einsum>(step.op)) return Work::products;
  if (as<Activate>(step.op) || as<ActivateGrad>(step.op)) return Work::activation;
  if (as<Move>(step.op)) return Work::messages;
  const bool rows = as<Encode>(step.op) || as<Decode>(step.op) || as<Pair>(step.op) || as<Count>(step.op) ||
                    as<Arrange>(step.op) || as<Add>(step.op) || as<Split>(step.op) || as<Concat>(step.op);
  return rows ? Work::rows : Work::gate;
}

std::string work_name(const Schedule&, const Step& step) { return std::string(name(work_of(step))); }

// The largest difference as a part of the largest element.
double relative(const at::Tensor& mine, const at::Tensor& right) {
  const double most = right.abs().max().item<double>(), d = (mine - right).abs().max().item<double>();
  return std::isnan(d) ? INFINITY : d / std::max(most, 1e-30);
}

// What the ranks share: read by all; `mutex` guards what they add to.
struct Shared {
  const Config& config;
  RunShape shape;
  MoeLayer layer;
  LayerData data;
  PlainOutcome plain = {};
  std::mutex mutex = {};
  LayerBench bench = {};
  KindTimes work = {}, kinds = {}, steps = {};
  struct Turns {
    Timings layer, products, plain;
  };
  std::vector<Turns> timings = {};  // by rank
};

class BenchRank {
 public:
  BenchRank(Shared& shared, RankContext context)
      : shared_(shared),
        context_(context),
        world_(wire::everyone(*context.world, context.rank)),
        layer_(shared.layer, shared.shape.sizes, context, kept()),
        profile_(executor().schedule()) {
    for (int i = 0; i < kWarmUp; ++i) layer_.run();
    products_.emplace(executor(), context_);
    products_->choose(kTries);
    executor().observe([this](const Span& span) { profile_.add(span); });
  }

  // Rank 0 computes what is right with all tokens, the others wait; then each rank compares what it holds.
  void compare() {
    if (shared_.shape.sizes.route().chooser == Chooser::group) share_routes();
    world_->barrier();
    if (context_.rank == 0) {
      const int threads = at::get_num_threads();
      at::set_num_threads(threads * world_->size());
      shared_.plain = plain_layer(shared_.shape.sizes, shared_.data.parameters, shared_.data.tokens);
      at::set_num_threads(threads);
    }
    world_->barrier();
    double most = relative(executor().value(shared_.layer.y), layer_.part(shared_.plain.y_TD, shared_.layer.y));
    for (const auto& [name, gradient] : shared_.layer.gradients) {
      const at::Tensor right = layer_.part(whole_gradient(name), executor().schedule().find(name));
      most = std::max(most, relative(executor().value(gradient), right));
    }
    const std::lock_guard lock(shared_.mutex);
    shared_.bench.difference = std::max(shared_.bench.difference, most);
  }

  void time(const LayerTurns& turns) {
    const LayerTokens mine = own_tokens();
    for (int64_t i = 0; i < turns.repeats; ++i) {
      profile_.start();
      times_.layer.add(together(*world_, [this] { layer_.run(); }));
      if (times_.layer.last_is_fastest()) {
        work_ = profile_.by(work_name);
        kinds_ = profile_.by(kind_of);
        steps_ = profile_.by(name_of);
      }
      times_.products.add(together(*world_, [this] { products_->run(); }));
      times_.plain.add(together(*world_, [&] { plain_layer(shared_.shape.sizes, shared_.data.parameters, mine); }));
      world_->barrier();
      if (turns.between && context_.rank == 0) turns.between();
    }
  }

  void tell() {
    const double live = static_cast<double>(measured_live_bytes());
    const std::lock_guard lock(shared_.mutex);
    LayerBench& b = shared_.bench;
    b.product_flops += products_->flops();
    b.peak_bytes = std::max(b.peak_bytes, static_cast<double>(executor().buffers().peak()));
    b.taken_bytes = std::max(b.taken_bytes, static_cast<double>(executor().buffers().reserved()));
    b.live_bytes = std::max(b.live_bytes, live);
    add_mean(shared_.work, work_, world_->size());
    add_mean(shared_.kinds, kinds_, world_->size());
    add_mean(shared_.steps, steps_, world_->size());
    shared_.timings[world_->rank()] = times_;
    if (context_.rank > 0) return;
    b.routes = executor().value(shared_.layer.chosen).sum().item<double>();
    b.dropped = b.routes - executor().value(shared_.layer.kept).sum().item<double>();
  }

 private:
  Executor& executor() { return layer_.executor(); }

  Keep kept() const {
    Keep keep{product_tables(shared_.layer.schedule)};
    for (const auto& [name, gradient] : shared_.layer.gradients) keep.values.push_back(gradient);
    keep.values.push_back(shared_.layer.y);
    if (const ValueId routes = routed(); routes >= 0) keep.values.push_back(routes);
    return keep;
  }

  // The experts that the gate chose.
  ValueId routed() const {
    for (const Step& step : shared_.layer.schedule.steps)
      if (as<Route>(step.op)) return step.out[1];
    return -1;
  }

  at::Tensor whole_gradient(const std::string& name) const {
    if (name == "x") return shared_.plain.dx_TD;
    std::vector<at::Tensor> parts = shared_.plain.gradients.at(name);
    const at::Tensor& like = shared_.data.parameters.at(name);
    for (at::Tensor& part : parts)
      if (!part.defined()) part = at::zeros(like.sizes().slice(1), like.options());  // an expert without a token
    return parts.size() == 1 ? parts[0] : at::stack(parts);
  }

  void share_routes() {
    const Range tokens = local_range(shared_.shape.mesh, *executor().types()[routed()].find("T"), context_.rank);
    shared_.data.tokens.routes_T.narrow(0, tokens.first, tokens.size).copy_(executor().value(routed()).flatten());
  }

  // This rank's share of the tokens, for the plain layer.
  LayerTokens own_tokens() const {
    const int64_t size = shared_.shape.sizes.tokens() / world_->size();
    const auto own = [&](const at::Tensor& all) { return all.narrow(0, size * context_.rank, size).contiguous(); };
    const LayerTokens& t = shared_.data.tokens;
    return {own(t.x_TD), own(t.dy_TD), own(t.ids_T), own(t.routes_T), own(t.noise_TE)};
  }

  int64_t measured_live_bytes() {
    LayerRank keeps_all(shared_.layer, shared_.shape.sizes, context_, {.what = Keep::What::all});
    keeps_all.run();
    return live_bytes(keeps_all.executor(), kept().values);
  }

  Shared& shared_;
  RankContext context_;
  std::shared_ptr<wire::Group> world_;
  LayerRank layer_;
  Profile profile_;
  std::optional<StepProducts> products_;
  Shared::Turns times_;
  KindTimes work_, kinds_, steps_;
};

void add_timings(LayerBench& b, std::vector<Shared::Turns> by_rank) {
  Shared::Turns& all = by_rank.front();
  for (const Shared::Turns& theirs : by_rank) {
    all.layer.merge(theirs.layer);
    all.products.merge(theirs.products);
    all.plain.merge(theirs.plain);
  }
  b.layer_ms = all.layer.least();
  b.layer_median_ms = all.layer.median();
  b.layer_cpu_ms = all.layer.least_cpu();
  b.products_ms = all.products.least();
  b.products_median_ms = all.products.median();
  b.products_cpu_ms = all.products.least_cpu();
  b.plain_ms = all.plain.least();
  b.plain_median_ms = all.plain.median();
}

}  // namespace

std::string_view name(Work work) {
  constexpr std::string_view names[] = {"products", "activation", "gate", "rows", "messages"};
  return names[static_cast<int>(work)];
}

double LayerBench::share(Work what) const {
  for (const WorkTime& w : work)
    if (w.work == what) return w.ms / layer_ms;
  return 0;
}

LayerBench bench_layer(const Config& config, const LayerTurns& turns) {
  const RunShape shape = run_shape(config);
  const int64_t tokens = shape.sizes.tokens();
  Shared shared{.config = config,
                .shape = shape,
                .layer = build_moe_layer(shape.mesh, shape.sizes),
                .data = layer_data(shape.sizes)};
  shared.timings.resize(num_ranks(config));
  wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    BenchRank bench(shared, {rank, &world, at::kFloat});
    bench.compare();
    bench.time(turns);
    bench.tell();
  });
  LayerBench& b = shared.bench;
  if (!(b.difference < kAgrees))
    throw ContractError(
        fmt::format("the layer differs from plain ATen by {:.2g} of the largest element", b.difference));
  add_timings(b, std::move(shared.timings));
  b.ranks = num_ranks(config);
  b.tokens = static_cast<double>(tokens);
  if (shape.sizes.capacity) {
    const double slots = static_cast<double>(shape.sizes.capacity * shape.sizes.experts) * b.tokens /
                         static_cast<double>(shape.sizes.group);
    b.padded = slots - (b.routes - b.dropped);
  }
  for (Work work : {Work::products, Work::activation, Work::gate, Work::rows, Work::messages})
    if (const auto it = shared.work.find(std::string(name(work))); it != shared.work.end())
      b.work.push_back({work, it->second.ms, it->second.cpu_ms});
  b.kinds = longest_first(shared.kinds);
  b.steps = longest_first(shared.steps);
  return b;
}

}  // namespace plait
