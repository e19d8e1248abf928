#include "schedule/external.h"

#include <algorithm>
#include <set>

#include "base/errors.h"
#include "schedule/typing_rules.h"

namespace plait {
namespace {

template <class T>
const T& attribute(const External& op, std::string_view name) {
  const auto it = std::ranges::find(op.attributes, name, &Attribute::name);
  expects(it != op.attributes.end() && std::holds_alternative<T>(it->value),
          fmt::format("{} has no attribute {} of that kind", *op.record->name, name));
  return std::get<T>(it->value);
}

bool alike(const Attribute& a, const Attribute& b) { return a.name == b.name && a.value.index() == b.value.index(); }

std::set<std::string_view> known_names() {
  std::set<std::string_view> names = {"move"};
  const auto add = [&]<class... T>(const std::variant<T...>*) {
    const auto one = [&]<class U>(const U*) {
      if constexpr (!std::is_same_v<U, External>) names.insert(U::kName);
    };
    (one(static_cast<const T*>(nullptr)), ...);
  };
  add(static_cast<const Op*>(nullptr));
  for (int k = 0; k <= static_cast<int>(MoveKind::pad); ++k) names.insert(name(static_cast<MoveKind>(k)));
  return names;
}

}  // namespace

std::string_view name(const Op& op) {
  return std::visit(
      []<class T>(const T& o) -> std::string_view {
        if constexpr (std::is_same_v<T, External>)
          return o.record->name;
        else
          return T::kName;
      },
      op);
}

const Traits& traits_of(const Op& op) {
  return std::visit(
      []<class T>(const T& o) -> const Traits& {
        if constexpr (std::is_same_v<T, External>)
          return o.record->traits;
        else
          return T::kTraits;
      },
      op);
}

double External::number(std::string_view name) const { return attribute<double>(*this, name); }
int64_t External::integer(std::string_view name) const { return attribute<int64_t>(*this, name); }
const std::string& External::word(std::string_view name) const { return attribute<std::string>(*this, name); }

External external(const ExternalOp& record, const std::vector<Attribute>& attributes) {
  External op{&record, record.attributes};
  for (const Attribute& given : attributes) {
    const auto it = std::ranges::find_if(op.attributes, [&](const Attribute& a) { return alike(a, given); });
    expects(it != op.attributes.end(), fmt::format("{} has no attribute {} of that kind", *record.name, given.name));
    it->value = given.value;
  }
  return op;
}

void expect_own_names(std::span<const ExternalOp* const> ops) {
  std::set<std::string_view> taken = known_names();
  for (const ExternalOp* op : ops)
    if (!taken.insert(op->name).second)
      input_error("op {}: an op of that name is there already, expected a name of its own: rename it", *op->name);
}

std::vector<Type> infer_op(const StepTyping& step, const External& op) {
  const std::vector<Attribute>& want = op.record->attributes;
  if (!std::ranges::equal(op.attributes, want, alike))
    throw TypeFault(fmt::format("{}: {} takes other attributes than these {}: make it by `external`", step.where,
                                *op.record->name, op.attributes.size()));
  return op.record->infer(step, op);
}

}  // namespace plait
