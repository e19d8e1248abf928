// The fields of every op as a grammar, made of the ops themselves: what is printed and parsed is what it says.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "schedule/text.h"

namespace plait {
namespace {

std::string form(const std::string&) { return "NAME"; }
std::string form(double) { return "REAL"; }
std::string form(int64_t) { return "COUNT"; }
std::string form(int) { return "COUNT"; }
std::string form(bool value) { return "true|false"; }
std::string form(const Dim&) { return "DIM"; }
std::string form(const std::vector<Dim>&) { return "DIMS"; }
std::string form(const std::vector<Atom>&) { return "AXES"; }
std::string form(const std::vector<std::string>&) { return "LABELS"; }
std::string form(const RouteSpec*) { return fmt::format("{}", fmt::join(route_names(built_in_gates()), "|")); }
template <class E>
requires std::is_enum_v<E> std::string form(E) { return fmt::format("{}", fmt::join(EnumNames<E>::names, "|")); }

struct FieldForms {
  std::vector<std::string> all;
  void operator()(const char*, const Legs&) { all.emplace_back("LEG.."); }
  void operator()(const char* name, const auto& value) { all.push_back(fmt::format("{}={}", name, form(value))); }
};

// Gives the nth field of an op that is a choice its next value; says how many such fields there are.
struct NextChoice {
  int field = 0, value = 0, seen = 0;
  void operator()(const char*, auto&) {}
  void operator()(const char*, const RouteSpec*& gate) {
    const std::vector<std::string> names = route_names(built_in_gates());
    if (seen++ == field) gate = find_route(built_in_gates(), names[static_cast<size_t>(value) % names.size()]);
  }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(const char*, E& e) {
    if (seen++ == field) e = static_cast<E>(static_cast<size_t>(value) % EnumNames<E>::names.size());
  }
};

constexpr int kMostChoices = 4, kMostValues = 16;  // fields of an op that are choices, and the values of one

template <class T>
std::vector<std::string> forms(T op) {
  FieldForms forms;
  T::fields(op, forms);
  return forms.all;
}

// Fields that only some values of its choices have.
template <class T>
std::vector<std::string> more_forms(const std::vector<std::string>& always) {
  std::vector<std::string> more;
  for (int field = 0; field < kMostChoices; ++field)
    for (int value = 0; value < kMostValues; ++value) {
      T op;
      T::fields(op, NextChoice{field, value});
      for (const std::string& form : forms(op))
        if (std::ranges::count(always, form) + std::ranges::count(more, form) == 0) more.push_back(form);
    }
  return more;
}

template <class T>
std::string line_of() {
  const std::vector<std::string> always = forms(T());
  std::string line = T::kName;
  for (const std::string& form : always) line += " " + form;
  for (const std::string& form : more_forms<T>(always)) line += " [" + form + "]";
  return line + "\n";
}

template <size_t... I>
std::map<std::string, std::string> lines(std::index_sequence<I...>) {
  std::map<std::string, std::string> all;
  const auto add = [&]<class T>(const T*) {
    if constexpr (!std::is_same_v<T, External>) all[T::kName] = line_of<T>();
  };
  (add(static_cast<const std::variant_alternative_t<I, Op>*>(nullptr)), ...);
  return all;
}

}  // namespace

std::string op_grammar() {
  std::string text;
  for (const auto& [name, line] : lines(std::make_index_sequence<std::variant_size_v<Op>>())) text += line;
  return text;
}

}  // namespace plait
