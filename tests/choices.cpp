#include "choices.h"

#include <fmt/format.h>

#include "margin.h"
#include "schedule/draws.h"
#include "train/loop.h"

namespace plait {
namespace {

kernels::GateExtras extras(const Route& op, const Executor& executor, const Step& step) {
  kernels::GateExtras extras;
  if (op.gate->bias) extras.bias_E = executor.value(step.in[2]);
  if (!op.draws()) return extras;
  const int64_t experts = executor.value(step.in[0]).size(-1),
                key = *executor.value(step.in.back()).const_data_ptr<int64_t>();
  const auto draws = [&](Draw purpose) { return Draws{draw_key(key, op.rule.stream, purpose), 0, experts}; };
  extras.priority = draws(Draw::priority);
  extras.sample = draws(Draw::sample);
  return extras;
}

std::string near_choice(const Executor& executor, const Step& step) {
  const Route* op = as<Route>(step.op);
  if (!op) return {};
  const kernels::RouteOptions options{.gate = op->gate,
                                      .normalize = op->normalize,
                                      .drop = op->drop,
                                      .top_k = op->top_k,
                                      .capacity = op->capacity,
                                      .group = op->group,
                                      .rule = op->rule};
  return kernels::near_choice(
      {executor.value(step.in[0]), executor.value(step.in[1]), options, extras(*op, executor, step)}, kMargin);
}

}  // namespace

std::string near_choice(const Config& given, const data::Corpus& corpus, int steps) {
  Config config = given;
  config.train.dtype = RunType::float64;
  RunShape shape = one_rank(run_shape(config));
  std::string first;
  for (Optimizer::Kind kind : {Optimizer::Kind::sgd, Optimizer::Kind::adamw}) {
    shape.optimizer.kind = kind;
    Trainer trainer(config, shape, corpus, {.dtype = at::kDouble}, {{}, Keep::What::all});
    int now = 0, gates = 0;
    trainer.observe([&](const Span& span) {
      const Step& step = trainer.executor().schedule().steps[span.step];
      if (as<Route>(step.op)) ++gates;
      if (const std::string near = first.empty() ? near_choice(trainer.executor(), step) : ""; !near.empty())
        first = fmt::format("{}, step {}, gate {} of it: {}", kind == Optimizer::Kind::sgd ? "SGD" : "AdamW", now + 1,
                            gates, near);
    });
    for (; now < steps; ++now, gates = 0) trainer.step(now, kind == Optimizer::Kind::sgd ? 1.0 : 1e-2);
  }
  return first;
}

}  // namespace plait
