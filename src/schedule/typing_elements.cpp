// Element types in mixed precision, one rule an op; found by overload. What works on activations takes `real` as well
// as `full` and mixes neither; statistics, gates, losses and the update are `full`, as is every op without a rule here.
#include "schedule/typing_rules.h"

namespace plait {
namespace {

std::string_view word(Dtype dtype) { return EnumNames<Dtype>::names[static_cast<int>(dtype)]; }

struct Elements {
  const StepTyping& step;
  std::vector<Type>& out;

  Dtype first() const { return step.type(0).dtype; }

  void expect(size_t operand, Dtype want) const {
    const Dtype have = step.type(operand).dtype;
    if (have != Dtype::integer && have != want)
      step.fault(operand, fmt::format("is {}, {} needs {}: cast it", word(have), name(step.op), word(want)));
  }
  // Operands [from, to), of those that are there.
  void expect(size_t from, size_t to, Dtype want) const {
    for (size_t i = from; i < std::min(to, step.in.size()); ++i) expect(i, want);
  }
  void give(size_t result, Dtype dtype) const {
    if (out[result].dtype != Dtype::integer) out[result].dtype = dtype;
  }
  // All operands as the first, all results too.
  void alike() const {
    expect(1, step.in.size(), first());
    for (size_t i = 0; i < out.size(); ++i) give(i, first());
  }
};

template <class Op>
void set(const Elements& e, const Op&) {
  e.expect(0, e.step.in.size(), Dtype::full);
  for (size_t i = 0; i < e.out.size(); ++i) e.give(i, Dtype::full);
}

void set(const Elements& e, const Cast& op) {
  if (op.to == e.first()) e.step.fault(0, fmt::format("is {} already", word(op.to)));
  e.give(0, op.to);
}
// Results follow their operands: one message may carry several types, unless it adds them up.
void set(const Elements& e, const Move& op) {
  const bool adds =
      std::any_of(op.legs.begin(), op.legs.end(), [](const Leg& leg) { return leg.from.hold == Hold::P; });
  if (adds) e.expect(1, e.out.size(), e.first());
  for (size_t i = 0; i < e.out.size(); ++i) e.give(i, e.step.type(i).dtype);
}
void set(const Elements& e, const Einsum&) { e.alike(); }
void set(const Elements& e, const Add&) { e.alike(); }
void set(const Elements& e, const Scale&) { e.alike(); }
void set(const Elements& e, const Split&) { e.alike(); }
void set(const Elements& e, const Concat&) { e.alike(); }
void set(const Elements& e, const Dup&) { e.alike(); }
void set(const Elements& e, const Pick&) { e.alike(); }
void set(const Elements& e, const Unflatten&) { e.alike(); }
void set(const Elements& e, const Flatten&) { e.alike(); }
void set(const Elements& e, const Pack&) { e.alike(); }
void set(const Elements& e, const Unpack&) { e.alike(); }
void set(const Elements& e, const Activate&) { e.alike(); }
void set(const Elements& e, const ActivateGrad&) { e.alike(); }
void set(const Elements& e, const Rope&) { e.alike(); }
void set(const Elements& e, const Embed&) { e.alike(); }
void set(const Elements& e, const EmbedGrad&) { e.alike(); }

void set(const Elements& e, const RmsNorm&) {
  e.expect(1, Dtype::full);
  e.give(0, e.first());
}
void set(const Elements& e, const RmsNormGrad&) {
  e.expect(1, Dtype::full);
  e.expect(2, e.first());
  e.give(0, e.first());
  e.give(1, Dtype::full);
}

void set(const Elements& e, const Attention&) {
  e.alike();
  e.give(1, Dtype::full);
}
void set(const Elements& e, const AttentionGrad&) {
  e.expect(1, 4, e.first());
  e.expect(4, Dtype::full);
  e.expect(5, e.first());
  for (size_t i = 0; i < 3; ++i) e.give(i, e.first());
}

// (x or rows, [weight], places [, table])
void set(const Elements& e, const Encode&) {
  e.expect(1, Dtype::full);
  e.give(0, e.first());
}
void set(const Elements& e, const Decode&) {
  e.expect(1, Dtype::full);
  e.give(0, e.first());
}
void set(const Elements& e, const Pair&) {
  e.expect(1, e.first());
  e.give(0, Dtype::full);
}

// A sum may be finer than what it adds; an update reads a gradient of either type.
void set(const Elements& e, const Accumulate&) {
  if (e.first() != Dtype::full) e.expect(1, e.first());
  e.give(0, e.first());
}
void set(const Elements& e, const SumSquares&) { e.give(0, Dtype::full); }
void set(const Elements& e, const AdamW&) {
  e.expect(0, Dtype::full);
  e.expect(2, e.step.in.size(), Dtype::full);
  for (size_t i = 0; i < 3; ++i) e.give(i, Dtype::full);
}
void set(const Elements& e, const Sgd&) {
  e.expect(0, Dtype::full);
  e.expect(2, e.step.in.size(), Dtype::full);
  e.give(0, Dtype::full);
}

}  // namespace

void set_elements(const StepTyping& step, std::vector<Type>& results) {
  std::visit([&](const auto& op) { set(Elements{step, results}, op); }, step.op);
}

}  // namespace plait
