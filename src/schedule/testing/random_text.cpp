#include "schedule/testing/random_text.h"

#include <algorithm>

#include "schedule/known.h"

namespace plait::oracle {

size_t TextDice::below(size_t n) {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return (state_ >> 33) % n;
}

namespace {

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find_first_of(" ,=():/>[];\n", from) + 1, text.size());
    all.push_back(text.substr(from, std::max(to, from + 1) - from));
    from += all.back().size();
  }
  return all;
}

}  // namespace

std::string edited(const std::string& text, TextDice& dice) {
  std::vector<std::string> all = words(text);
  if (all.empty()) return text;
  const size_t at = dice.below(all.size()), other = dice.below(all.size());
  switch (dice.below(7)) {
    case 0: all[at].clear(); break;
    case 1: all[at] += all[at]; break;
    case 2: std::swap(all[at], all[other]); break;
    case 3: all[at] = all[other]; break;
    case 4: all[at].insert(dice.below(all[at].size() + 1), 1, static_cast<char>(' ' + dice.below(95))); break;
    case 5:
      all[at] = std::to_string(dice.below(5)) + (all[at].size() > 1 ? all[at].substr(all[at].size() - 1) : "");
      break;
    default: all.resize(at + 1);
  }
  std::string result;
  for (const std::string& word : all) result += word;
  return result;
}

namespace {

// Gives each field a value that is none of its first ones.
struct FillFields {
  void operator()(const char*, Legs& legs) { legs = {{0, {Hold::I}, {Hold::S, "T"}}, {1, {Hold::S, "E"}, {Hold::R}}}; }
  void operator()(const char*, std::string& s) { s = "some.name"; }
  void operator()(const char*, double& x) { x = 0.1 + 1e-9; }
  void operator()(const char*, int64_t& n) { n = 7; }
  void operator()(const char*, int& n) { n = 3; }
  void operator()(const char*, bool& b) { b = !b; }
  void operator()(const char*, Dim& dim) { dim = {"V", 8, {{.atom = 1}, {.split = "s", .part = 1, .parts = 2}}}; }
  void operator()(const char*, std::vector<Dim>& dims) { dims = {{"C", 4, {}, "r"}, {"D", 6, {{.atom = 0}}}}; }
  void operator()(const char*, std::vector<Atom>& atoms) { atoms = {1, 0}; }
  void operator()(const char*, std::vector<std::string>& labels) { labels = {"T", "g1"}; }
  void operator()(const char*, const RouteSpec*& gate) {
    const std::vector<std::string> names = route_names(built_in_gates());
    gate = find_route(built_in_gates(), names[choice % names.size()]);
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char*, E& e) { e = static_cast<E>(choice % EnumNames<E>::names.size()); }
  size_t choice = 0;
};

template <size_t... I>
std::vector<Op> ops(std::index_sequence<I...>) {
  std::vector<Op> all;
  const auto add = [&]<class T>(const T&) {
    if constexpr (std::is_same_v<T, External>) return;  // has the fields of its record
    for (size_t choice = 0; choice < 9; ++choice) {
      T op;
      T::fields(op, FillFields{choice});
      T::fields(op, FillFields{choice});  // of what the choices brought
      all.push_back(op);
    }
  };
  (add(std::variant_alternative_t<I, Op>()), ...);
  return all;
}

}  // namespace

std::vector<Op> filled_ops() { return ops(std::make_index_sequence<std::variant_size_v<Op>>()); }

}  // namespace plait::oracle
