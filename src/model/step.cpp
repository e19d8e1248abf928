#include "model/step.h"

#include <algorithm>
#include <set>

#include "model/chunks.h"
#include "passes/differentiate.h"
#include "passes/lower.h"
#include "passes/recompute.h"
#include "passes/rewrite.h"
#include "schedule/builder.h"

namespace plait {
namespace {

// The transposes of the prologue stand last: what they make are cotangents of what the prologue reads. All before them,
// what is summed for a parameter used twice too, belongs to the section. Returns where the section ends.
int close_section(Schedule& s, int num_forward, int num_prologue) {
  std::set<ValueId> loaded;
  for (int i = 0; i < num_prologue; ++i) loaded.insert(s.steps[i].in.begin(), s.steps[i].in.end());
  const auto in_section = [&](const Step& step) {
    if (as<Cast>(step.op)) return true;  // what is read in full is added up in full
    return std::none_of(step.out.begin(), step.out.end(), [&](ValueId v) {
      const auto of = s.cotangent_of.find(v);
      return of != s.cotangent_of.end() && loaded.count(of->second);
    });
  };
  const auto end = std::stable_partition(s.steps.begin() + num_forward, s.steps.end(), in_section);
  return static_cast<int>(end - s.steps.begin());
}

// The steps that write each layer, of a forward list. Values keep their ids through rewrites, and new ones stand
// between those that they serve.
std::vector<StepBlock> layer_blocks(const Schedule& s, int num_forward, const std::vector<Model::Scope>& scopes) {
  std::vector<StepBlock> blocks;
  for (size_t i = 0; i + 1 < scopes.size(); ++i) {
    if (scopes[i].layer < 0) continue;
    StepBlock block{num_forward, 0};
    for (int step = 0; step < num_forward; ++step) {
      const ValueId made = s.steps[step].out.front();
      if (made >= scopes[i].first && made < scopes[i + 1].first) block = {std::min(block.first, step), step + 1};
    }
    blocks.push_back(block);
  }
  return blocks;
}

// The update reads gradients of the run's type as they are: the casts to full that they end with fall away. One that is
// loaded twice, as tied embeddings are, is the sum of two.
void keep_sums_real(Differentiated& d) {
  Schedule& s = d.schedule;
  const std::vector<int> made = makers(s);
  const auto is_cast = [&](ValueId v) { return made[v] >= 0 && as<Cast>(s.steps[made[v]].op); };
  std::set<int> fallen;
  for (auto& [leaf, gradient] : d.gradients) {
    Step& last = s.steps[made[gradient]];
    std::vector<ValueId> parts = as<Add>(last.op) ? last.in : std::vector{gradient};
    if (!std::all_of(parts.begin(), parts.end(), is_cast)) continue;
    for (ValueId& part : parts) {
      fallen.insert(made[part]);
      part = s.steps[made[part]].in[0];
    }
    if (as<Add>(last.op)) {
      last.in = parts;
      s.cotangent_of[gradient] = s.cotangent_of.at(parts[0]);
    } else {
      gradient = parts[0];
    }
  }
  for (auto at = fallen.rbegin(); at != fallen.rend(); ++at) s.steps.erase(s.steps.begin() + *at);
}

// sqrt of the sum of squares of every element once: values held alike are added before they leave.
ValueId write_norm(Builder& b, const std::vector<ValueId>& gradients) {
  std::map<std::vector<Hold>, std::vector<ValueId>> alike;
  for (ValueId g : gradients) alike[b.type(g).holds].push_back(g);
  std::vector<ValueId> parts;
  for (const auto& [holds, values] : alike) {
    Atoms over;
    for (Atom a : b.mesh().atoms())
      if (holds[a] == Hold::S) over.push_back(a);
    std::string held = "squares.";
    for (Hold hold : holds) held += static_cast<char>(hold);
    parts.push_back(b.leave(b.add(SumSquares{}, values, held), over));
  }
  return parts.size() == 1 ? parts[0] : b.add(Add{}, parts, "squares_total");
}

void write_update(Builder& b, TrainingStep& step, const Optimizer& o, ValueId factor) {
  const ValueId lr = b.leaf(LeafKind::scalar, "lr", std::vector<Dim>{});
  const bool adamw = o.kind == Optimizer::Kind::adamw;
  const ValueId count = adamw ? b.leaf(LeafKind::scalar, "step", std::vector<Dim>{}) : -1;
  for (const Parameter& p : step.parameters) {
    const ValueId param = b.schedule().find(p.name), grad = step.gradients.at(p.name);
    const double decay = p.decays ? o.weight_decay : 0;
    if (!adamw) {
      b.add(Sgd{decay}, {param, grad, factor, lr}, p.name + ".new");
      continue;
    }
    const std::vector<Dim> dims = b.type(param).dims;
    const ValueId m = b.leaf(LeafKind::state, p.name + ".m", dims), v = b.leaf(LeafKind::state, p.name + ".v", dims);
    b.add(AdamW{o.beta1, o.beta2, o.eps, decay}, {param, grad, m, v, factor, lr, count}, p.name + ".new");
  }
}

// Each bias moves against the load of its layer in the whole batch. `factor`: that of the update, where steps may be
// skipped; else empty.
void write_biases(Builder& b, const Model& model, double rate, const std::vector<ValueId>& factor) {
  for (size_t i = 0; i < model.biases.size(); ++i) {
    if (model.biases[i] < 0) continue;
    std::vector<ValueId> operands = {model.biases[i], model.chosen[i]};
    operands.insert(operands.end(), factor.begin(), factor.end());
    b.add(BalanceBias{rate}, operands, b.schedule().names[model.biases[i]] + ".new");
  }
}

// What each update reads: in a repeated section the gradient is its sum.
std::map<std::string, ValueId> read_gradients(const Schedule& s) {
  std::map<std::string, ValueId> gradients;
  for (const Step& step : s.steps)
    if (as<AdamW>(step.op) || as<Sgd>(step.op)) gradients[s.names[step.in[0]]] = step.in[1];
  return gradients;
}

}  // namespace

Optimizer optimizer(const Config& c) {
  return {.kind = c.optim.name,
          .beta1 = c.optim.betas[0],
          .beta2 = c.optim.betas[1],
          .eps = c.optim.eps,
          .weight_decay = c.optim.weight_decay,
          .clip = c.optim.clip,
          .sums = c.memory.grad_dtype == SumType::param ? Dtype::real : Dtype::full,
          .scaling = c.train.dtype == RunType::float16 ? Optimizer::Scaling::dynamic : Optimizer::Scaling::none};
}

namespace {

// Where messages of the prologue and of its transposes are cut; 0: nowhere.
int64_t bucket_of(const ModelSizes& sizes, const Sections& sections) {
  constexpr int64_t kShares = 4 << 20;  // a message of shares needs a buffer of its own size
  return sections.bucket == 0 && sizes.zero != Zero::none ? kShares : sections.bucket;
}

// The forward and backward list, cut into what runs once before the micro-batches, for each, and once after.
struct Cut {
  Schedule schedule;
  int first = 0, last = 0;  // of the steps for each micro-batch
};

Cut cut_messages(Cut cut, int64_t bucket) {
  if (bucket == 0) return cut;
  cut.schedule = split_messages(cut.schedule, bucket, cut.last);
  const size_t before = cut.schedule.steps.size();
  cut.schedule = split_messages(cut.schedule, bucket, 0, cut.first);
  const int more = static_cast<int>(cut.schedule.steps.size() - before);
  return {std::move(cut.schedule), cut.first + more, cut.last + more};
}

}  // namespace

TrainingStep build_step(const Mesh& mesh, const ModelSizes& sizes, const Optimizer& optimizer, Sections sections) {
  const Model model = build_model(mesh, sizes);
  const bool scaled = optimizer.scaling == Optimizer::Scaling::dynamic;
  Differentiated d =
      differentiate(model.schedule, {scaled ? Root{model.loss, "loss_scale", LeafKind::scalar} : Root{model.loss}});
  if (sizes.precision == Precision::mixed)
    optimizer.sums == Dtype::full ? void(d.schedule = sum_in_full(d.schedule)) : keep_sums_real(d);
  d = in_chunks(std::move(d), sizes);
  TrainingStep step{.parameters = model.parameters, .moe_layers = model.moe_layers};
  d.schedule = recompute(d.schedule, {.recompute = sizes.recompute,
                                      .keep = sizes.keep_moves,
                                      .num_forward = d.num_forward,
                                      .blocks = layer_blocks(d.schedule, d.num_forward, model.scopes)});
  const int last = close_section(d.schedule, d.num_forward, model.num_prologue);
  Cut cut = cut_messages({std::move(d.schedule), model.num_prologue, last}, bucket_of(sizes, sections));

  Builder b(std::move(cut.schedule));
  b.scope("update.");
  std::vector<ValueId> gradients;
  for (const Parameter& p : step.parameters) {
    step.gradients[p.name] = d.gradients.at(b.schedule().find(p.name));
    gradients.push_back(step.gradients[p.name]);
  }
  std::vector<ValueId> of_norm = {write_norm(b, gradients)};
  if (scaled) of_norm.push_back(b.schedule().find("loss_scale"));
  const std::vector<ValueId> clip = b.add_all(ClipFactor{optimizer.clip}, of_norm, "norm");
  write_update(b, step, optimizer, clip[1]);
  write_biases(b, model, sizes.bias_rate, scaled ? std::vector{clip[1]} : std::vector<ValueId>{});
  b.schedule().outputs.push_back(clip[0]);

  // Outputs keep their order through the rewrites, not their ids: a repeated section's leave as sums.
  const Schedule repeated = repeat_section(b.take(), {cut.first, cut.last, sections.micro_batches});
  const std::vector<ValueId>& outputs = repeated.outputs;
  auto next = outputs.begin();
  step.nll = *next++;
  if (model.aux >= 0) step.aux = *next++;
  for (size_t i = 0; i < model.chosen.size(); ++i) step.chosen.push_back(*next++);
  for (size_t i = 0; i < model.kept.size(); ++i) step.kept.push_back(*next++);
  step.norm = *next++;
  step.schedule = lower(repeated);
  step.gradients = read_gradients(step.schedule);
  return step;
}

Evaluation build_evaluation(const Mesh& mesh, const ModelSizes& sizes) {
  Model model = build_model(mesh, for_evaluation(sizes));
  model.schedule.outputs = {model.nll};
  const Schedule used = drop_unused(model.schedule);
  return {lower(in_chunks(used, sizes)), model.nll};
}

}  // namespace plait
