// What the traits of ops name: where results may lie, what slices move up through, how much arithmetic there is. Rules
// for element types stand in typing_elements.cpp.
#include <algorithm>

#include "schedule/schedule.h"
#include "schedule/traits.h"
#include "schedule/typing.h"

namespace plait {

const Type& TypedStep::in(size_t operand) const { return types[step.in[operand]]; }
const Type& TypedStep::out(size_t result) const { return types[step.out[result]]; }

namespace traits {
namespace {

using How = Sharing::How;

// Result i of operand i.
Sharings each(const Step& step, How how) {
  Sharings all;
  for (int i = 0; i < static_cast<int>(step.out.size()); ++i) all.push_back({how, i, i});
  return all;
}

// A chunk of dim d lies in one piece where nothing is left of it.
bool leading(const std::vector<int64_t>& shape, size_t d) {
  return std::all_of(shape.begin(), shape.begin() + static_cast<long>(d), [](int64_t n) { return n == 1; });
}

// What a rank keeps of a value of fixed size lies in one piece where all but one of the dims left of what is whole
// have size 1 in it.
bool one_piece(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  size_t whole = from.size();
  while (whole > 0 && from[whole - 1] == to[whole - 1]) --whole;
  return whole == 0 || leading(to, whole - 1);
}

bool unscaled(const Op& op) {
  const Dup* dup = as<Dup>(op);
  return dup ? dup->scale == 1 : std::get<Pick>(op).scale == 1;
}

}  // namespace

Sharings fresh(const Step&) { return {}; }
Sharings view_first(const Step&) { return {{How::view, 0, 0}}; }
Sharings over_first(const Step&) { return {{How::over, 0, 0}}; }
Sharings update_first(const Step&) { return {{How::in_place, 0, 0}}; }
Sharings update_moments(const Step&) { return {{How::in_place, 0, 0}, {How::in_place, 1, 2}, {How::in_place, 2, 3}}; }

Sharings views_first(const Step& step) {
  Sharings views = each(step, How::view);
  for (Sharing& s : views) s.in = 0;
  return views;
}

Sharings view_unscaled(const Step& step) { return unscaled(step.op) ? view_first(step) : Sharings{}; }

Sharings over_either(const Step& step) {
  Sharings over = over_first(step);
  if (step.in.size() > 1) over.push_back({How::over, 0, 1});
  return over;
}

Sharings moved(const Step& step) {
  const Legs& legs = std::get<Move>(step.op).legs;
  const Collective c = collective(legs);
  if (c == Collective::all_reduce) return each(step, How::over);
  const std::vector<MoveKind> all = kinds(legs);
  const bool makes = c != Collective::none || std::ranges::find(all, MoveKind::pad) != all.end();
  return makes ? Sharings{} : each(step, How::view);
}

bool fits(const TypedStep&, const Sharing&) { return true; }

bool fits_in_one_piece(const TypedStep& at, const Sharing& s) {
  const Type &from = at.in(s.in), &to = at.out(s.out);
  return s.how == How::over || from.jagged_index() >= 0 ||
         one_piece(local_shape(at.mesh, from), local_shape(at.mesh, to));
}

bool fits_split(const TypedStep& at, const Sharing&) {
  const Split& split = std::get<Split>(at.step.op);
  const auto dim = std::ranges::find(at.in(0).dims, split.dim, &Dim::name) - at.in(0).dims.begin();
  return split.parts == 1 || leading(local_shape(at.mesh, at.in(0)), static_cast<size_t>(dim));
}

bool fits_pack(const TypedStep& at, const Sharing&) {
  return local_elements(at.mesh, at.in(0)) == std::get<Pack>(at.step.op).size;
}

namespace {

double elements(const TypedStep& at, const Type& type) { return static_cast<double>(local_elements(at.mesh, type)); }

// `products` products of a causal square: half of 2 S^2 A each.
double square_flops(const TypedStep& at, double products) {
  return products * elements(at, at.in(0)) * static_cast<double>(local_size(at.mesh, *at.in(0).find("S")));
}

}  // namespace

double no_flops(const TypedStep&) { return 0; }

// Every label of either operand once.
double product_flops(const TypedStep& at) {
  double flops = 2 * elements(at, at.in(0));
  for (const Dim& dim : at.in(1).dims)
    if (!at.in(0).has(dim.name)) flops *= static_cast<double>(local_size(at.mesh, dim));
  return flops;
}

double attention_flops(const TypedStep& at) { return square_flops(at, 2); }
double attention_grad_flops(const TypedStep& at) { return square_flops(at, 5); }

namespace {

bool has_cells(const std::vector<std::string>& dims, const std::vector<Atom>& atoms) {
  return std::ranges::all_of(atoms, [&](Atom a) { return std::ranges::count(dims, group_dim(a)) > 0; });
}

}  // namespace

bool never(const TokenCut&) { return false; }
bool always(const TokenCut&) { return true; }
bool of_joins(const TokenCut& cut) { return cut.joins; }

bool of_token_products(const TokenCut& cut) {
  const std::vector<std::string>& out = std::get<Einsum>(cut.at.step.op).out;
  return std::ranges::count(out, "T") > 0 || has_cells(out, cut.atoms);
}

bool of_whole_groups(const TokenCut& cut) {
  const int64_t group = std::get<Route>(cut.at.step.op).group;
  const int64_t tokens = local_size(cut.at.mesh, *cut.at.in(0).find("T"));
  return !group || tokens / cut.at.mesh.count(cut.atoms) % group == 0;
}

bool of_routes_alone(const TokenCut& cut) { return cut.at.step.in.size() == 2; }

bool of_dropless(const TokenCut& cut) {
  const Op& op = cut.at.step.op;
  return !(as<Encode>(op) ? as<Encode>(op)->routing : std::get<Decode>(op).routing).capacity;
}

int64_t no_scratch(const TypedStep&) { return 0; }
int64_t one_number(const TypedStep&) { return 8; }

}  // namespace traits
}  // namespace plait
