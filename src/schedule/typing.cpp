#include "schedule/typing.h"

#include <algorithm>
#include <set>

namespace plait {

void StepTyping::fault(const std::string& value, const std::string& why) const {
  throw TypeFault(fmt::format("{}: %{}: {}", where, value, why));
}

void StepTyping::fault(const std::string& value, Atom atom, const std::string& why) const {
  throw TypeFault(fmt::format("{}: %{} over {}: {}", where, value, mesh.name(atom), why));
}

std::string group_dim(Atom atom) { return fmt::format("g{}", atom); }

std::string token_label(const std::string& dim) {
  const bool digit = dim.size() > 1 && dim[0] == 'g' && std::isdigit(static_cast<unsigned char>(dim[1]));
  return digit || dim == "W" ? "T" : dim;
}

namespace {

struct At {
  const Operand* operand;
  Place place;
};

Hold partial_result(const StepTyping& step, const std::vector<At>& at, Atom atom) {
  const auto is_partial = [](const At& a) { return a.place.hold == Hold::P; };
  const auto first = std::find_if(at.begin(), at.end(), is_partial);
  for (const At& a : at) {
    if (a.place.hold == Hold::R || (is_partial(a) && &a == &*first)) continue;
    const std::string why = is_partial(a)
                                ? "is a partial sum times another partial sum: leave, scatter or sum one of them first"
                                : fmt::format("is {} in a product with a partial sum: leave, scatter or sum that first",
                                              to_string(a.place));
    step.fault(a.operand->name, atom, why);
  }
  return Hold::P;
}

Hold sharded_result(const StepTyping& step, const Multilinear& rule, const std::vector<At>& at, Atom atom) {
  std::set<std::string> labels;
  for (const At& a : at)
    if (a.place.hold == Hold::S) labels.insert(rule.label(a.place.dim));
  if (labels.size() > 1) {
    step.fault(at.back().operand->name, atom,
               fmt::format("operands are sharded on different dims {} and {}: exchange one of them", *labels.begin(),
                           *labels.rbegin()));
  }
  const std::string label = *labels.begin();
  for (const At& a : at) {
    const auto& dims = a.operand->type->dims;
    const bool has = std::any_of(dims.begin(), dims.end(), [&](const Dim& d) { return rule.label(d.name) == label; });
    if (a.place.hold == Hold::R && has)
      step.fault(a.operand->name, atom,
                 fmt::format("is R but its dim {} is sharded in another operand: part it, or gather the other", label));
  }
  const bool kept =
      std::any_of(rule.out.begin(), rule.out.end(), [&](const std::string& d) { return rule.label(d) == label; });
  return kept ? Hold::S : Hold::P;
}

Hold result_at(const StepTyping& step, const Multilinear& rule, Atom atom) {
  std::vector<At> at;
  for (const Operand& operand : rule.in) {
    const Place place = operand.type->place(atom);
    const bool same_everywhere = place.hold == Hold::I || place.hold == Hold::R;
    if (operand.type->grad || !same_everywhere) at.push_back({&operand, place});
  }
  const auto any = [&](Hold hold) {
    return std::any_of(at.begin(), at.end(), [&](const At& a) { return a.place.hold == hold; });
  };
  if (!any(Hold::R) && !any(Hold::P) && !any(Hold::S)) return Hold::I;
  for (const At& a : at) {
    if (a.place.hold != Hold::I) continue;
    const auto other = std::find_if(at.begin(), at.end(), [](const At& b) { return b.place.hold != Hold::I; });
    const bool partial = other->place.hold == Hold::P;
    step.fault(a.operand->name, atom,
               fmt::format("is I beside %{} which is {}: {}", other->operand->name, to_string(other->place),
                           partial ? "leave or scatter that first, or enter this" : "enter or slice it first"));
  }
  if (any(Hold::P)) return partial_result(step, at, atom);
  return any(Hold::S) ? sharded_result(step, rule, at, atom) : Hold::R;
}

}  // namespace

std::vector<Hold> holds(const StepTyping& step, const Multilinear& rule) {
  std::vector<Hold> result;
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom) result.push_back(result_at(step, rule, atom));
  return result;
}

void refuse_partial(const StepTyping& step, size_t operand) {
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
    if (step.type(operand).holds[atom] == Hold::P)
      step.fault(operand, atom,
                 fmt::format("is a partial sum and {} is not linear: leave or scatter it first", name(step.op)));
}

void expect_operands(const StepTyping& step, size_t low, size_t high) {
  if (step.in.size() < low || step.in.size() > high)
    throw TypeFault(fmt::format("{}: has {} operands, {} takes {}", step.where, step.in.size(), name(step.op),
                                low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high)));
}

const Dim& expect_dim(const StepTyping& step, size_t operand, std::string_view dim) {
  const Dim* have = step.type(operand).find(dim);
  if (!have) step.fault(operand, fmt::format("has no dim {}", dim));
  return *have;
}

void expect_dims(const StepTyping& step, size_t operand, size_t least) {
  if (step.type(operand).dims.size() < least)
    step.fault(operand, fmt::format("is {}, {} needs at least {} dim{}", to_string(step.mesh, step.type(operand)),
                                    name(step.op), least, least == 1 ? "" : "s"));
}

void expect_same_dim(const StepTyping& step, const Operand& a, const Operand& b, const std::string& dim) {
  const Dim *da = a.type->find(dim), *db = b.type->find(dim);
  if (!da || !db) step.fault(da ? b.name : a.name, fmt::format("has no dim {}", dim));
  if (*da == *db) return;
  const auto describe = [&](const Dim& d) { return to_string(step.mesh, std::vector<Dim>{d}); };
  for (Atom atom = 0; atom < step.mesh.num_atoms(); ++atom)
    if (da->holds(atom) != db->holds(atom))
      step.fault(
          b.name, atom,
          fmt::format("dim {} is {} here, {} in %{}: move one of them", dim, describe(*db), describe(*da), a.name));
  step.fault(b.name,
             fmt::format("dim {} is {} here, {} in %{}: split both alike", dim, describe(*db), describe(*da), a.name));
}

}  // namespace plait
