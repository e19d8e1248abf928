#include "passes/testing/fuzz.h"

#include <map>

#include "base/errors.h"
#include "base/random.h"
#include "passes/rewrite.h"
#include "schedule/text.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

constexpr std::pair<Hold, Hold> kMoves[] = {
    {Hold::I, Hold::R}, {Hold::P, Hold::I}, {Hold::S, Hold::R}, {Hold::P, Hold::S}, {Hold::I, Hold::S},
    {Hold::S, Hold::I}, {Hold::S, Hold::S}, {Hold::P, Hold::R}, {Hold::R, Hold::S}, {Hold::S, Hold::P}};

class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(random_key(seed, "fuzz")) {}
  int below(size_t n) { return static_cast<int>(uniform_below(key_, count_++, n)); }
  bool percent(int chance) { return below(100) < chance; }
  const auto& pick(const auto& all) { return all[below(std::size(all))]; }

 private:
  uint64_t key_, count_ = 0;
};

class Editor {
 public:
  Editor(Model& model, Dice& dice) : m_(model), dice_(dice), types_(check(model.schedule)) {}

  void edit() {
    Schedule& s = m_.schedule;
    std::vector<int> moves;
    for (size_t i = 0; i < s.steps.size(); ++i)
      if (as<Move>(s.steps[i].op)) moves.push_back(static_cast<int>(i));
    const int index = dice_.pick(moves);
    switch (dice_.below(8)) {
      case 0: return drop_step(m_, index);
      case 1:
      case 2:
      case 3: return insert();
      default: return change(legs_of(s, index), type(s.steps[index].in[0]));
    }
  }

 private:
  // Values that an earlier edit made have no type yet; any other's dims will do to choose from.
  const Type& type(ValueId v) const { return v < static_cast<ValueId>(types_.size()) ? types_[v] : types_[m_.y]; }

  Place place(Hold hold, const Type& t) {
    return {hold, hold == Hold::S && !t.dims.empty() ? dice_.pick(t.dims).name : ""};
  }

  void change(Legs& legs, const Type& t) {
    Leg& leg = legs[dice_.below(legs.size())];
    switch (dice_.below(4)) {
      case 0: {
        const auto [from, to] = dice_.pick(kMoves);
        leg = {leg.atom, place(from, t), place(to, t)};
        return;
      }
      case 1: leg.to = place(dice_.pick(kMoves).second, t); return;
      case 2: std::swap(legs[dice_.below(legs.size())], legs[dice_.below(legs.size())]); return;
      default: leg.atom = dice_.below(m_.schedule.mesh.num_atoms());
    }
  }

  Hold target(Hold from) {
    std::vector<Hold> all;
    for (const auto& [f, to] : kMoves)
      if (f == from) all.push_back(to);
    return dice_.pick(all);
  }

  // A move of a random value, for all readers or one; mostly undone at once.
  void insert() {
    Schedule& s = m_.schedule;
    const ValueId v = dice_.below(types_.size());
    if (types_[v].holds.empty() || !types_[v].grad || v == m_.loss) return;
    std::vector<int> reads;
    for (size_t i = 0; i < s.steps.size(); ++i)
      if (std::find(s.steps[i].in.begin(), s.steps[i].in.end(), v) != s.steps[i].in.end())
        reads.push_back(static_cast<int>(i));
    if (reads.empty()) return;
    if (dice_.percent(50)) reads = {dice_.pick(reads)};
    const Atom atom = dice_.below(s.mesh.num_atoms());
    const Place from = types_[v].place(atom), to = place(target(from.hold), types_[v]);
    const int at = makers(s)[v] + 1;
    const bool casts = dice_.percent(10);
    ValueId moved = casts ? insert_step(s, at, Cast{dice_.percent(50) ? Dtype::real : Dtype::full}, {v})
                          : insert_step(s, at, Move{{{atom, from, to}}}, {v});
    int inserted = 1;
    if (!casts && dice_.percent(70)) {
      const Place back = dice_.percent(75) ? from : place(target(to.hold), types_[v]);
      moved = insert_step(s, at + inserted++, Move{{{atom, to, back}}}, {moved});
    }
    for (int i : reads) std::replace(s.steps[i + inserted].in.begin(), s.steps[i + inserted].in.end(), v, moved);
  }

  Model& m_;
  Dice& dice_;
  Types types_;
};

Toy random_toy(Dice& dice) {
  const std::vector<MeshSize> meshes = {{4, 2, 2, 2}, {8, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4}};
  Toy toy{.mesh = dice.pick(meshes)};
  do toy.family = dice.pick(kFamilies);
  while (!fits(toy.family, toy.mesh));
  if (dice.percent(30)) toy.residual = Residual::yes;
  if (dice.percent(30)) toy.precision = Precision::mixed;
  if (dice.percent(25)) {
    toy.family = dice.pick(kNodeFamilies);
    do toy.mesh = dice.pick(kNodeLayouts);
    while (!fits(toy.family, toy.mesh) || toy.mesh.ranks > 8);
    toy.across = Across::node;
    toy.chunks = dice.percent(33) ? 2 : 1;
    return toy;
  }
  if (dice.percent(50)) {
    toy.chunks = dice.percent(33) ? 2 : 1;
    if (dice.percent(25)) toy.cells = Cells::padded;
    return toy;
  }
  toy.capacity = gate_group(toy);
  if (dice.percent(33) && toy.capacity % 2 == 0 && toy.capacity / 2 % toy.mesh.tp == 0)
    toy.chunks = 2;
  else if (dice.percent(50))
    toy.capacity = std::max<int64_t>(toy.capacity / 2, 1), toy.drop = Drop::probs;
  return toy;
}

std::string describe(const Toy& toy) {
  return fmt::format("{} on {} across {} capacity {} group {} chunks {} residual {} padded {} mixed {}",
                     name(toy.family), oracle::describe(toy.mesh), toy.across == Across::node, toy.capacity,
                     gate_group(toy), toy.chunks, toy.residual == Residual::yes, toy.cells == Cells::padded,
                     toy.precision == Precision::mixed);
}

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : dice_(seed) {}

  FuzzReport run(int edits) {
    for (report_.edits = 0; report_.edits < edits; ++report_.edits) once();
    return report_;
  }

 private:
  void once() {
    const Toy toy = random_toy(dice_);
    Model model = cached(models_, toy, [&] { return build(toy); });
    const std::string before = fingerprint(model.schedule, model.loss);
    Editor editor(model, dice_);
    for (int i = 1 + dice_.below(3); i > 0; --i) editor.edit();
    if (fingerprint(model.schedule, model.loss) == before) {
      ++report_.unchanged;
      return;
    }
    try {
      check(model.schedule);
    } catch (const TypeFault&) {
      ++report_.refused;
      return;
    }
    const std::string fault = wrong(toy, model);
    if (fault.empty())
      ++report_.right;
    else
      report_.wrong.push_back(fmt::format("{}: {}\n{}", describe(toy), fault, print(model.schedule)));
  }

  // What is wrong with an accepted schedule; empty when nothing is.
  std::string wrong(const Toy& toy, const Model& model) {
    const Data data{
        .mask = {1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0}};
    const Numbers& one =
        cached(references_, on_one_rank(toy), [&] { return perform(build(on_one_rank(toy)), data).numbers; });
    try {
      const Outcome many = perform(model, data, Agreement::close);
      for (size_t v = 0; v < many.trace.values.size(); ++v)
        if (!many.trace.values[v].empty())
          expect_agreement(many.lowered.mesh, many.trace.types[v], many.trace.values[v], Agreement::close);
      const double error = max_difference(many.numbers, one);
      return error < 1e-9 ? "" : fmt::format("differs from one rank by {}", error);
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  template <class T>
  const T& cached(std::map<std::string, T>& all, const Toy& toy, auto&& make) {
    const std::string key = fmt::format("{} {}", describe(toy), toy.tokens);
    const auto it = all.find(key);
    return it != all.end() ? it->second : all.emplace(key, make()).first->second;
  }

  Dice dice_;
  FuzzReport report_;
  std::map<std::string, Model> models_;
  std::map<std::string, Numbers> references_;
};

}  // namespace

FuzzReport fuzz(int edits, uint64_t seed) { return Fuzzer(seed).run(edits); }

}  // namespace plait::oracle
