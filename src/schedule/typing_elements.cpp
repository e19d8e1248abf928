// Rules for element types, which the traits of ops name. What works on activations takes `real` as well as `full` and
// mixes neither; statistics, gates, losses and the update are `full`; the norm is `wide`.
#include <algorithm>

#include "schedule/typing_rules.h"

namespace plait {
namespace {

bool same(Precision precision, Dtype a, Dtype b) {
  const auto number = [](Dtype d) { return d == Dtype::real || d == Dtype::full; };
  return a == b || (precision == Precision::one && number(a) && number(b));
}

}  // namespace

void ElementTyping::expect(size_t operand, Dtype want) const {
  const Dtype have = step.type(operand).dtype;
  if (have == Dtype::integer || same(step.precision, have, want)) return;
  const char* fix = want == Dtype::wide ? "take a scalar leaf or what a clip_factor makes" : "cast it";
  step.fault(operand, fmt::format("is {}, {} needs {}: {}", name(have), name(step.op), name(want), fix));
}

void ElementTyping::expect(size_t from, size_t to, Dtype want) const {
  for (size_t i = from; i < std::min(to, step.in.size()); ++i) expect(i, want);
}

void ElementTyping::give(size_t result, Dtype dtype) const {
  if (out[result].dtype == Dtype::integer || same(step.precision, out[result].dtype, dtype)) return;
  out[result].dtype = dtype;
}

void ElementTyping::give_all(Dtype dtype) const {
  for (size_t i = 0; i < out.size(); ++i) give(i, dtype);
}

namespace traits {

void alike(const ElementTyping& e) {
  e.expect(1, e.step.in.size(), e.first());
  e.give_all(e.first());
}

void full(const ElementTyping& e) {
  e.expect(0, e.step.in.size(), Dtype::full);
  e.give_all(Dtype::full);
}

void routed(const ElementTyping& e) {
  e.expect(1, e.step.in.size(), Dtype::full);
  e.give_all(e.first());
}

void cast_to(const ElementTyping& e) {
  const Dtype to = std::get<Cast>(e.step.op).to;
  if (to == e.first() && e.step.precision == Precision::mixed) e.step.fault(0, fmt::format("is {} already", name(to)));
  e.give(0, to);
}

// Results follow their operands: one message may carry several types, unless it adds them up.
void moved_alike(const ElementTyping& e) {
  const bool adds =
      std::ranges::any_of(std::get<Move>(e.step.op).legs, [](const Leg& leg) { return leg.from.hold == Hold::P; });
  if (adds) e.expect(1, e.out.size(), e.first());
  for (size_t i = 0; i < e.out.size(); ++i) e.give(i, e.step.type(i).dtype);
}

void norm_grad(const ElementTyping& e) {
  e.expect(1, Dtype::full);
  e.expect(2, e.first());
  e.give(0, e.first());
  e.give(1, Dtype::full);
}

void attention(const ElementTyping& e) {
  alike(e);
  e.give(1, Dtype::full);
}

void attention_grad(const ElementTyping& e) {
  e.expect(1, 4, e.first());
  e.expect(4, Dtype::full);
  e.expect(5, e.first());
  e.give_all(e.first());
}

void pair(const ElementTyping& e) {
  e.expect(1, e.first());
  e.give(0, Dtype::full);
}

// A sum may be finer than what it adds; an update reads a gradient of either type.
void accumulate(const ElementTyping& e) {
  if (e.first() != Dtype::full) e.expect(1, e.first());
  e.give(0, e.first());
}

void sum_squares(const ElementTyping& e) { e.give(0, Dtype::wide); }

void clip_factor(const ElementTyping& e) {
  e.expect(0, Dtype::wide);
  e.expect(1, 2, Dtype::full);
  e.give_all(Dtype::wide);
}

void adamw(const ElementTyping& e) {
  e.expect(0, Dtype::full);
  e.expect(2, 4, Dtype::full);
  e.expect(4, 7, Dtype::wide);
  e.give_all(Dtype::full);
}

void sgd(const ElementTyping& e) {
  e.expect(0, Dtype::full);
  e.expect(2, 4, Dtype::wide);
  e.give_all(Dtype::full);
}

void balance_bias(const ElementTyping& e) {
  e.expect(0, 2, Dtype::full);
  e.expect(2, 3, Dtype::wide);
  e.give_all(Dtype::full);
}

}  // namespace traits
}  // namespace plait
