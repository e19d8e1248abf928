#include "verify/replay.h"

#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/nonzero.h>

#include <cctype>
#include <cmath>
#include <mutex>
#include <vector>

#include "base/errors.h"
#include "base/text.h"
#include "data/batch.h"
#include "train/loop.h"
#include "train/lr.h"
#include "train/resume.h"

namespace plait {
namespace {

// "l3.x" and "model.layers.3.x" are of layer 3.
std::optional<int64_t> layer_of(std::string_view name) {
  constexpr std::string_view kParameter = "layers.";
  size_t at = name.find(kParameter);
  at = at != std::string_view::npos ? at + kParameter.size() : name.starts_with("l") ? 1 : name.size();
  size_t end = at;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
  if (end == at || end == name.size() || name[end] != '.') return {};
  return std::stoll(std::string(name.substr(at, end - at)));
}

// Its largest magnitude; not finite where an element is not.
double largest(const at::Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item<double>(); }

// What all ranks found.
class Found {
 public:
  void put(NotFiniteValue value) {
    const auto order = [](const NotFiniteValue& v) { return std::tuple(v.step, v.micro, v.index, v.rank); };
    const std::lock_guard lock(mutex_);
    if (!first_ || order(value) < order(*first_)) first_ = std::move(value);
  }
  // Every rank calls it after a step that was skipped.
  void step_was_skipped() {
    const std::lock_guard lock(mutex_);
    if (first_ && !skipped_) {
      skipped_ = first_;
      skipped_->text += "; float16 skipped this step";
    }
    first_.reset();
  }
  std::optional<NotFiniteValue> first() const {
    const std::lock_guard lock(mutex_);
    return first_ ? first_ : skipped_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<NotFiniteValue> first_, skipped_;
};

// Looks at what a rank's steps make.
class Watch {
 public:
  Watch(const Trainer& trainer, const data::Corpus& corpus, const data::BatchPlan& batches, int rank, Found& found)
      : executor_(trainer.executor()),
        s_(executor_.schedule()),
        corpus_(corpus),
        batches_(batches),
        rank_(rank),
        found_(found),
        largest_(s_.names.size(), 0),
        parameter_(s_.names.size(), -1) {
    for (const Leaf& leaf : s_.leaves)
      if (leaf.kind == LeafKind::parameter) parameter_[static_cast<size_t>(leaf.value)] = leaf.value;
    for (const Step& step : s_.steps)
      if (as<Move>(step.op) || as<Cast>(step.op) || as<Unpack>(step.op))
        for (size_t i = 0; i < step.out.size(); ++i)
          parameter_[static_cast<size_t>(step.out[i])] = parameter_[static_cast<size_t>(step.in[i])];
  }

  // Update number `step` (from 0) follows, of what lies there.
  void begin(int64_t step) {
    step_ = step;
    faulty_ = false;
    times_.assign(s_.steps.size(), 0);
    look_at_leaves(-1);
  }

  // It is made: what it updated in place nobody reads in this step.
  void end() { look_at_leaves(past_list()); }

  void note(const Span& span) {
    const int micro = times_[static_cast<size_t>(span.step)]++;
    for (ValueId v : s_.steps[static_cast<size_t>(span.step)].out)
      look(v, {.step = step_ + 1, .micro = micro, .index = span.step}, executor_.value(v));
  }

  bool faulty() const { return faulty_; }

 private:
  int past_list() const { return static_cast<int>(s_.steps.size()); }
  bool of_list(int index) const { return index >= 0 && index < past_list(); }

  void look_at_leaves(int index) {
    for (const Leaf& leaf : s_.leaves)
      if (leaf.kind == LeafKind::parameter || leaf.kind == LeafKind::state)
        look(leaf.value,
             {.step = step_ + 1, .micro = index < 0 ? 0 : s_.repeat.value_or(Repeat{}).times, .index = index},
             executor_.bound(s_.names[leaf.value]));
  }

  void look(ValueId v, NotFiniteValue place, const at::Tensor& x) {
    if (!x.defined() || !x.is_floating_point()) return;
    largest_[static_cast<size_t>(v)] = largest(x);
    if (std::isfinite(largest_[static_cast<size_t>(v)])) return;
    faulty_ = true;
    place.rank = rank_;
    place.value = s_.names[static_cast<size_t>(v)];
    const auto of = s_.cotangent_of.find(v);
    place.layer = layer_of(of == s_.cotangent_of.end() ? place.value : s_.names[of->second]);
    const std::vector<int64_t> element = first_bad(x);
    place.sample = sample(v, place.micro, element);
    place.text = fmt::format("{}: {} is {} on {}{}{}{}", where(place), what(v, place), kind(x, element),
                             s_.mesh.coordinates(rank_), at(v, element), token(place), made_of(place.index));
    found_.put(std::move(place));
  }

  static std::vector<int64_t> first_bad(const at::Tensor& x) {
    const at::Tensor first = at::isfinite(x).logical_not().nonzero()[0].contiguous();
    return {first.const_data_ptr<int64_t>(), first.const_data_ptr<int64_t>() + first.numel()};
  }

  static std::string_view kind(const at::Tensor& x, const std::vector<int64_t>& element) {
    at::Tensor one = x;
    for (int64_t i : element) one = one.select(0, i);
    return std::isnan(one.item<double>()) ? "nan" : "infinite";
  }

  const Type& type(ValueId v) const { return executor_.types()[static_cast<size_t>(v)]; }

  std::string where(const NotFiniteValue& place) const {
    std::string text = fmt::format("training step {}", place.step);
    if (s_.repeat && place.index >= s_.repeat->first && place.index < s_.repeat->last)
      text += fmt::format(", micro-batch {} of {}", place.micro + 1, s_.repeat->times);
    if (place.layer) text += fmt::format(", layer {}", *place.layer);
    return text;
  }

  // "%l1.x"; of a parameter as it is used "%enter_3 (model.layers.1.mlp.gate.weight)"
  std::string named(ValueId v) const {
    const ValueId leaf = parameter_[static_cast<size_t>(v)];
    const std::string name = "%" + s_.names[static_cast<size_t>(v)];
    return leaf < 0 || leaf == v ? name : fmt::format("{} ({})", name, s_.names[static_cast<size_t>(leaf)]);
  }

  // "%d_l1.x, the gradient of %l1.x, made by step 57 of the list, einsum,"
  std::string what(ValueId v, const NotFiniteValue& place) const {
    if (!of_list(place.index))
      return named(v) + (place.index < 0 ? ", as the step begins," : ", as the step leaves it,");
    const auto of = s_.cotangent_of.find(v);
    return fmt::format("{}{}, made by step {} of the list, {},", named(v),
                       of == s_.cotangent_of.end() ? "" : ", the gradient of %" + s_.names[of->second], place.index,
                       s_.title(s_.steps[static_cast<size_t>(place.index)]));
  }

  // The index of an element in the whole value; of rows, whose number the step decides, this rank's own.
  std::vector<std::pair<std::string, int64_t>> indices(ValueId v, const std::vector<int64_t>& element) const {
    std::vector<std::pair<std::string, int64_t>> all;
    const std::vector<Dim>& dims = type(v).dims;
    const size_t rows = type(v).jagged_index() < 0 ? 0 : static_cast<size_t>(type(v).jagged_index());
    if (dims.size() - rows != element.size()) return {};
    for (size_t i = 0; i < element.size(); ++i) {
      const Dim& dim = dims[rows + i];
      dim.jagged() ? all.emplace_back("row", element[i])
                   : all.emplace_back(dim.name, local_range(s_.mesh, dim, rank_).first + element[i]);
    }
    return all;
  }

  std::string at(ValueId v, const std::vector<int64_t>& element) const {
    std::vector<std::string> parts;
    for (const auto& [dim, index] : indices(v, element)) parts.push_back(fmt::format("{} = {}", dim, index));
    return parts.empty() ? "" : " at " + join(parts, ", ");
  }

  std::optional<BatchToken> sample(ValueId v, int micro, const std::vector<int64_t>& element) const {
    const int64_t at_once = batches_.batch_size / batches_.num_micro;
    std::optional<int64_t> sequence, position;
    for (const auto& [dim, index] : indices(v, element)) {
      if (dim == "T" && type(v).find("T")->size == at_once * batches_.seq_length)
        sequence = index / batches_.seq_length, position = index % batches_.seq_length;
      if (dim == "B" && type(v).find("B")->size == at_once) sequence = index;
      if (dim == "S") position = index;
    }
    if (!sequence || !position) return {};
    *sequence += micro * at_once;
    return BatchToken{*sequence, *position, data::sequence_start(corpus_, batches_, step_, *sequence)};
  }

  static std::string token(const NotFiniteValue& place) {
    if (!place.sample) return "";
    return fmt::format(": position {} of sequence {} of the batch, which begins at token {} of the training text",
                       place.sample->position, place.sample->sequence, place.sample->start);
  }

  // "; made of %l1.h, at most 12.5, and %enter_3 (model.layers.1.mlp.gate.weight), at most 3.4e+38"
  std::string made_of(int index) const {
    if (!of_list(index)) return "";
    std::vector<std::string> parts;
    for (ValueId v : s_.steps[static_cast<size_t>(index)].in)
      if (type(v).dtype != Dtype::integer) parts.push_back(fmt::format("{}, at most {:.3g}", named(v), size(v)));
    return parts.empty() ? "" : "; made of " + join(parts, ", and ");
  }

  // What is fed lies there still.
  double size(ValueId v) const {
    const Leaf* leaf = s_.leaf(v);
    const bool fed = leaf && leaf->kind != LeafKind::parameter && leaf->kind != LeafKind::state;
    return fed ? largest(executor_.value(v)) : largest_[static_cast<size_t>(v)];
  }

  const Executor& executor_;
  const Schedule& s_;
  const data::Corpus& corpus_;
  data::BatchPlan batches_;
  int rank_;
  Found& found_;
  std::vector<double> largest_;     // by value: of its last making
  std::vector<ValueId> parameter_;  // by value: whose numbers it is; -1: of none
  std::vector<int> times_;          // by step of the list: how often it ran
  int64_t step_ = 0;
  bool faulty_ = false;
};

// True on every rank where it is true on one.
bool on_any(wire::Group& everyone, bool value) {
  const at::Tensor flag = at::full({}, value ? 1 : 0, at::kLong);
  everyone.all_reduce({&flag, 1});
  return flag.item<int64_t>() > 0;
}

// One rank's replay.
struct Rank {
  const Planned& run;
  const data::Corpus& corpus;
  const ReplayPlan& plan;
  Found& found;

  void walk(RankContext context) const {
    const Config& c = run.config;
    const RunShape shape = run_shape(run);
    Trainer trainer(c, shape, corpus, context);
    if (!plan.checkpoint.empty())
      trainer.load(Checkpoint(plan.checkpoint));
    else if (const auto weights = weights_of(c, [](const std::string&) {}))
      trainer.load_weights(*weights);
    const LearningRate rate{c.optim.lr, c.optim.min_lr, c.optim.warmup_steps, c.train.steps};
    Watch watch(trainer, corpus, batch_plan(c, shape), context.rank, found);
    trainer.observe([&](const Span& span) { watch.note(span); });
    const auto everyone = wire::everyone(*context.world, context.rank);
    for (int64_t step = plan.first; step < plan.end; ++step) {
      watch.begin(step);
      const bool skipped = trainer.step(step, rate.at(step)).skipped;
      watch.end();
      if (!on_any(*everyone, watch.faulty())) continue;
      if (!skipped) return;
      if (context.rank == 0) found.step_was_skipped();
      everyone->barrier();
    }
  }
};

}  // namespace

ReplayPlan replay_plan(const Config& config, std::optional<int64_t> steps) {
  ReplayPlan plan;
  if (const auto folder = find_latest(config.log.dir)) plan = {*folder, Checkpoint(*folder).step(), 0};
  plan.end = steps ? plan.first + *steps : config.train.steps;
  if (plan.end <= plan.first)
    input_error("the checkpoint '{}' is at the end of the run, train.steps = {}: say with --steps how many to replay",
                plan.checkpoint, config.train.steps);
  return plan;
}

std::optional<NotFiniteValue> first_not_finite(const Planned& run, const data::Corpus& corpus, const ReplayPlan& plan) {
  Found found;
  try {
    wire::run_ranks(rank_options(run.config), [&](int rank, wire::World& world) {
      Rank{run, corpus, plan, found}.walk({rank, &world, dtype_of(run.config)});
    });
  } catch (const wire::RankFailure&) {
    if (!found.first()) throw;  // else a gate saw it
  }
  return found.first();
}

}  // namespace plait
