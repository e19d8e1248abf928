#include "schedule/schedule.h"

#include <algorithm>
#include <set>

#include "base/stop.h"
#include "schedule/typing.h"

namespace plait {

std::string_view name(LeafKind kind) {
  constexpr std::string_view names[] = {"parameter", "state", "data", "scalar", "seed", "sum"};
  return names[static_cast<int>(kind)];
}

ValueId Schedule::find(std::string_view name) const {
  auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? -1 : static_cast<ValueId>(it - names.begin());
}

ValueId Schedule::add_value(std::string name) {
  names.push_back(std::move(name));
  return static_cast<ValueId>(names.size()) - 1;
}

const Leaf* Schedule::leaf(ValueId value) const {
  auto it = std::find_if(leaves.begin(), leaves.end(), [&](const Leaf& l) { return l.value == value; });
  return it == leaves.end() ? nullptr : &*it;
}

std::string Schedule::title(const Step& step) const {
  const Move* move = as<Move>(step.op);
  return move ? plait::title(move->legs) : std::string(name(step.op));
}

std::vector<Sharing> in_place(const Step& step) {
  std::vector<Sharing> all = traits_of(step.op).memory.may(step);
  std::erase_if(all, [](const Sharing& s) { return s.how != Sharing::How::in_place; });
  return all;
}

std::vector<int> makers(const Schedule& schedule) {
  std::vector<int> made(schedule.names.size(), -1);
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    for (ValueId v : schedule.steps[i].out) made[v] = static_cast<int>(i);
  return made;
}

std::vector<int> last_uses(const Schedule& schedule) {
  std::vector<int> last(schedule.names.size(), -1);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    for (ValueId v : schedule.steps[i].out) last[v] = static_cast<int>(i);
    for (ValueId v : schedule.steps[i].in) last[v] = static_cast<int>(i);
  }
  return last;
}

std::vector<int> readers(const Schedule& schedule) {
  std::vector<int> count(schedule.names.size(), 0);
  for (const Step& step : schedule.steps)
    for (ValueId v : step.in) ++count[v];
  for (ValueId v : schedule.outputs) ++count[v];
  return count;
}

namespace {

std::string where(const Schedule& s, int index, const Step& step) {
  return fmt::format("step {} {} -> %{}", index, s.title(step), step.out.empty() ? "?" : s.names[step.out.front()]);
}

// The state of a check: what is known so far, and who spoiled what.
class Checker {
 public:
  explicit Checker(const Schedule& s)
      : s_(s), types_(s.names.size()), known_(s.names.size(), false), spoiled_(s.names.size(), -1) {}

  Types run() {
    const int leaves = static_cast<int>(s_.leaves.size()), steps = static_cast<int>(s_.steps.size());
    using What = ListPart::What;
    for (int i = 0; i < leaves; ++i) at({What::leaf, i}, [&] { define_leaf(s_.leaves[i]); });
    for (int i = 0; i < steps; ++i) at({What::step, i}, [&] { step(i); });
    for (int i = 0; i < leaves; ++i) at({What::leaf, i}, [&] { leaf_cotangent(s_.leaves[i]); });
    at({What::outputs}, [&] { outputs(); });
    at({What::repeat}, [&] { section(); });
    return std::move(types_);
  }

 private:
  // A fault in this part of the list says so.
  template <class F>
  void at(ListPart part, F work) {
    try {
      work();
    } catch (TypeFault& fault) {
      fault.part = part;
      throw;
    }
  }

  void define_leaf(const Leaf& leaf) { define(leaf.value, leaf.type, "leaf %" + s_.names[leaf.value]); }

  // A seed comes before the value whose cotangent it is.
  void leaf_cotangent(const Leaf& leaf) {
    if (auto of = s_.cotangent_of.find(leaf.value); of != s_.cotangent_of.end() && known_[of->second])
      cotangent(leaf.value, of->second, "leaf %" + s_.names[leaf.value]);
  }

  void define(ValueId v, const Type& type, const std::string& at) {
    if (known_[v]) throw TypeFault(fmt::format("{}: %{} is made a second time", at, s_.names[v]));
    if (static_cast<int>(type.holds.size()) != s_.mesh.num_atoms())
      throw TypeFault(fmt::format("{}: its type is of another mesh", at));
    known_[v] = true;
    types_[v] = type;
    auto of = s_.cotangent_of.find(v);
    if (of != s_.cotangent_of.end() && known_[of->second]) cotangent(v, of->second, at);
  }

  void cotangent(ValueId v, ValueId of, const std::string& at) {
    const Type want = dual(types_[of]);
    if (types_[v].dtype != want.dtype)
      throw TypeFault(fmt::format("{}: %{}: the cotangent of %{} has another element type: cast it", at, s_.names[v],
                                  s_.names[of]));
    if (types_[v].dims == want.dims && types_[v].holds == want.holds) return;
    for (Atom a = 0; a < s_.mesh.num_atoms(); ++a) {
      const Place have = types_[v].place(a), must = want.place(a);
      if (have == must) continue;
      throw TypeFault(fmt::format(
          "{}: %{} over {}: the cotangent of %{} is {}, must be {}: a move of the backward list is missing or wrong",
          at, s_.names[v], s_.mesh.name(a), s_.names[of], to_string(have), to_string(must)));
    }
    throw TypeFault(
        fmt::format("{}: %{}: the cotangent of %{} is {}, must be {}: a move of the backward list is missing or wrong",
                    at, s_.names[v], s_.names[of], to_string(s_.mesh, types_[v]), to_string(s_.mesh, want)));
  }

  void step(int index) {
    const Step& step = s_.steps[index];
    const std::string at = where(s_, index, step);
    for (ValueId v : step.in) {
      if (!known_[v])
        throw TypeFault(fmt::format("{}: %{} is read before it is made: order the list", at, s_.names[v]));
      if (spoiled_[v] >= 0)
        throw TypeFault(fmt::format("{}: %{} was updated in place by {}: read it earlier or read the new value", at,
                                    s_.names[v], where(s_, spoiled_[v], s_.steps[spoiled_[v]])));
    }
    const std::vector<Type> out = infer_step(s_, types_, index, step);
    if (out.size() != step.out.size())
      throw TypeFault(fmt::format("{}: makes {} values, the list names {}", at, out.size(), step.out.size()));
    for (size_t i = 0; i < out.size(); ++i) define(step.out[i], out[i], at);
    for (const Sharing& p : in_place(step)) spoiled_[step.in[p.in]] = index;
  }

  void outputs() {
    for (ValueId v : s_.outputs) {
      if (!known_[v]) throw TypeFault(fmt::format("output %{}: is never made", s_.names[v]));
      if (spoiled_[v] >= 0)
        throw TypeFault(fmt::format("output %{}: was updated in place by {}", s_.names[v],
                                    where(s_, spoiled_[v], s_.steps[spoiled_[v]])));
      for (Atom a = 0; a < s_.mesh.num_atoms(); ++a)
        if (types_[v].place(a).hold != Hold::I)
          throw TypeFault(fmt::format("output %{} over {}: is {}, must be I: leave or join it", s_.names[v],
                                      s_.mesh.name(a), to_string(types_[v].place(a))));
    }
  }

  void section() {
    if (!s_.repeat) return;
    const Repeat& r = *s_.repeat;
    if (const int n = static_cast<int>(s_.steps.size()); r.first < 0 || r.last < r.first || r.last > n || r.times < 1)
      throw TypeFault(
          fmt::format("repeat {} {} {}: is no section of a list of {} steps: first <= last <= {}, times >= 1", r.first,
                      r.last, r.times, n, n));
    const std::vector<int> made = makers(s_);
    const auto leaks = [&](ValueId v) {
      return made[v] >= r.first && made[v] < r.last && in_place(s_.steps[made[v]]).empty();
    };
    const char* why = "is made in the repeated section, anew each time: accumulate it";
    for (int i = r.last; i < static_cast<int>(s_.steps.size()); ++i)
      for (ValueId v : s_.steps[i].in)
        if (leaks(v)) throw TypeFault(fmt::format("{}: %{} {}", where(s_, i, s_.steps[i]), s_.names[v], why));
    for (ValueId v : s_.outputs)
      if (leaks(v)) throw TypeFault(fmt::format("output %{}: {}", s_.names[v], why));
  }

  const Schedule& s_;
  Types types_;
  std::vector<bool> known_;
  std::vector<int> spoiled_;
};

}  // namespace

std::vector<Type> infer_step(const Schedule& schedule, const Types& types, int index, const Step& step) {
  stop::point();  // whatever builds or checks a long list comes by here
  std::vector<Operand> in;
  for (ValueId v : step.in) in.push_back({schedule.names[v], &types[v]});
  return infer({schedule.mesh, step.op, std::move(in), where(schedule, index, step), schedule.precision});
}

Types check(const Schedule& schedule) { return Checker(schedule).run(); }

}  // namespace plait
