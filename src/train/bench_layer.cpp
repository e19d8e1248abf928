#include "train/bench_layer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/errors.h"
#include "base/random.h"
#include "layers/moe_layer.h"
#include "schedule/draws.h"
#include "train/bench_products.h"
#include "train/live_bytes.h"
#include "train/loop.h"
#include "train/parameters.h"
#include "train/plain_layer.h"
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

at::Tensor random_tokens(const ModelSizes& s, const std::string& name) {
  const at::Tensor x = at::empty({s.tokens(), s.width}, at::kFloat);
  const uint64_t key = random_key(1, name);
  for (int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] = static_cast<float>(normal(key, i));
  return x;
}

at::Tensor random_ids(int64_t tokens) {
  const at::Tensor ids = at::empty({tokens}, at::kLong);
  const uint64_t key = random_key(1, "ids");
  for (int64_t i = 0; i < tokens; ++i)
    ids.data_ptr<int64_t>()[i] = static_cast<int64_t>(uniform_below(key, i, 1 << 16));
  return ids;
}

// Whole parameters, as one rank starts with them.
Tensors whole_parameters(const ModelSizes& sizes) {
  const Mesh one;
  const MoeLayer layer = build_moe_layer(one, sizes);
  Tensors all;
  for (const Parameter& p : layer.parameters) {
    const Stored stored{p.dims, layer.schedule.leaf(layer.schedule.find(p.name))->type};
    all[p.name] = initial_part(p, stored, 1, {one, 0, {}, {}, at::kFloat});
  }
  return all;
}

constexpr int64_t kStepKey = 1;

// [T, E]: what the noisy gate of layer 0 draws.
at::Tensor random_noise(const ModelSizes& sizes) {
  const at::Tensor noise = at::empty({sizes.tokens(), sizes.experts}, at::kFloat);
  const uint64_t key = draw_key(kStepKey, 0, Draw::noise);
  for (int64_t i = 0; i < noise.numel(); ++i)
    noise.mutable_data_ptr<float>()[i] = static_cast<float>(normal(key, static_cast<uint64_t>(i)));
  return noise;
}

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
  Tensors parameters;
  PlainTokens tokens;
  PlainOutcome plain = {};
  std::mutex mutex = {};
  LayerBench bench = {};
  KindTimes work = {}, kinds = {}, steps = {};
  struct Turns {
    Timings layer, products, plain;
  };
  std::vector<Turns> timings = {};  // by rank
};

class LayerRank {
 public:
  LayerRank(Shared& shared, RankContext context)
      : shared_(shared),
        context_(context),
        world_(everyone(context)),
        executor_(shared.layer.schedule, context, kept()),
        profile_(executor_.schedule()) {
    bind(executor_);
    for (int i = 0; i < kWarmUp; ++i) run(executor_);
    products_.emplace(executor_, context_);
    products_->choose(kTries);
    executor_.observe([this](const Span& span) { profile_.add(span); });
  }

  // Rank 0 computes what is right with all tokens, the others wait; then each rank compares what it holds.
  void compare() {
    if (shared_.shape.sizes.gate == Gate::base) share_routes();
    world_->barrier();
    if (context_.rank == 0) {
      const int threads = at::get_num_threads();
      at::set_num_threads(threads * world_->size());
      shared_.plain = plain_layer(shared_.shape.sizes, shared_.parameters, shared_.tokens);
      at::set_num_threads(threads);
    }
    world_->barrier();
    double most = relative(executor_.value(shared_.layer.y), part(shared_.plain.y_TD, shared_.layer.y));
    for (const auto& [name, gradient] : shared_.layer.gradients) {
      const at::Tensor right = part(whole_gradient(name), executor_.schedule().find(name));
      most = std::max(most, relative(executor_.value(gradient), right));
    }
    const std::lock_guard lock(shared_.mutex);
    shared_.bench.difference = std::max(shared_.bench.difference, most);
  }

  void time(const LayerTurns& turns) {
    const PlainTokens mine = own_tokens();
    for (int64_t i = 0; i < turns.repeats; ++i) {
      profile_.start();
      times_.layer.add(together(*world_, [this] { run(executor_); }));
      if (times_.layer.last_is_fastest()) {
        work_ = profile_.by(work_name);
        kinds_ = profile_.by(kind_of);
        steps_ = profile_.by(name_of);
      }
      times_.products.add(together(*world_, [this] { products_->run(); }));
      times_.plain.add(together(*world_, [&] { plain_layer(shared_.shape.sizes, shared_.parameters, mine); }));
      world_->barrier();
      if (turns.between && context_.rank == 0) turns.between();
    }
  }

  void tell() {
    const double live = static_cast<double>(measured_live_bytes());
    const std::lock_guard lock(shared_.mutex);
    LayerBench& b = shared_.bench;
    b.product_flops += products_->flops();
    b.peak_bytes = std::max(b.peak_bytes, static_cast<double>(executor_.buffers().peak()));
    b.taken_bytes = std::max(b.taken_bytes, static_cast<double>(executor_.buffers().reserved()));
    b.live_bytes = std::max(b.live_bytes, live);
    add_mean(shared_.work, work_, world_->size());
    add_mean(shared_.kinds, kinds_, world_->size());
    add_mean(shared_.steps, steps_, world_->size());
    shared_.timings[world_->rank()] = times_;
    if (context_.rank > 0) return;
    b.routes = executor_.value(shared_.layer.chosen).sum().item<double>();
    b.dropped = b.routes - executor_.value(shared_.layer.kept).sum().item<double>();
  }

 private:
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

  StepTypes where() const { return {shared_.shape.mesh, context_.rank, {}, {}, context_.dtype}; }
  at::Tensor part(const at::Tensor& whole, ValueId like) const {
    return part_of(whole, executor_.types()[like], {shared_.shape.mesh, context_.rank, {}, {}, whole.scalar_type()});
  }

  void bind(Executor& executor) {
    const Schedule& s = executor.schedule();
    for (const Leaf& leaf : s.leaves) {
      const std::string& name = s.names[leaf.value];
      if (leaf.kind == LeafKind::parameter)
        executor.bind(name, part_of(shared_.parameters.at(name), leaf.type, where()));
      if (leaf.kind == LeafKind::state) executor.bind(name, at::zeros(local_shape(s.mesh, leaf.type), context_.dtype));
      if (leaf.kind == LeafKind::data) data_[name] = data(name, leaf.type);
    }
  }

  at::Tensor data(const std::string& name, const Type& type) const {
    const double tokens = static_cast<double>(shared_.shape.sizes.tokens());
    if (name == "x") return part_of(shared_.tokens.x_TD, type, where());
    if (name == "dy") return part_of(shared_.tokens.dy_TD, type, where());
    if (name == "mask") return at::ones(local_shape(shared_.shape.mesh, type), at::kLong);
    if (name == "inv_tokens") return at::full({}, 1 / tokens, context_.dtype);
    if (name == "step_key") return at::full({}, kStepKey, at::kLong);
    if (name == "share") return at::ones({}, context_.dtype);
    expects(name == "ids", "no data for leaf " + name);
    return part_of(shared_.tokens.ids_T, type, {shared_.shape.mesh, context_.rank, {}, {}, at::kLong});
  }

  void run(Executor& executor) {
    executor.run([this](const std::string& leaf, int) { return data_.at(leaf); });
  }

  at::Tensor whole_gradient(const std::string& name) const {
    if (name == "x") return shared_.plain.dx_TD;
    std::vector<at::Tensor> parts = shared_.plain.gradients.at(name);
    const at::Tensor& like = shared_.parameters.at(name);
    for (at::Tensor& part : parts)
      if (!part.defined()) part = at::zeros(like.sizes().slice(1), like.options());  // an expert without a token
    return parts.size() == 1 ? parts[0] : at::stack(parts);
  }

  void share_routes() {
    const Range tokens = where().range(executor_.types()[routed()], "T");
    shared_.tokens.routes_T.narrow(0, tokens.first, tokens.size).copy_(executor_.value(routed()).flatten());
  }

  // This rank's share of the tokens, for the plain layer.
  PlainTokens own_tokens() const {
    const int64_t size = shared_.shape.sizes.tokens() / world_->size();
    const auto own = [&](const at::Tensor& all) { return all.narrow(0, size * context_.rank, size).contiguous(); };
    const PlainTokens& t = shared_.tokens;
    return {own(t.x_TD), own(t.dy_TD), own(t.ids_T), own(t.routes_T), own(t.noise_TE)};
  }

  int64_t measured_live_bytes() {
    Executor keeps_all(shared_.layer.schedule, context_, {.what = Keep::What::all});
    bind(keeps_all);
    run(keeps_all);
    return live_bytes(keeps_all, kept().values);
  }

  Shared& shared_;
  RankContext context_;
  std::shared_ptr<wire::Group> world_;
  std::map<std::string, at::Tensor> data_;
  Executor executor_;
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
                .parameters = whole_parameters(shape.sizes),
                .tokens = {random_tokens(shape.sizes, "x"), random_tokens(shape.sizes, "dy"), random_ids(tokens),
                           at::zeros({tokens}, at::kLong), random_noise(shape.sizes)}};
  shared.timings.resize(num_ranks(config));
  wire::run_ranks(local_options(config), [&](int rank, wire::World& world) {
    LayerRank bench(shared, {rank, &world, at::kFloat});
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
