#include "passes/named_rewrites.h"

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/text.h"
#include "passes/lower.h"
#include "passes/order.h"
#include "passes/rewrite.h"

namespace plait {
namespace {

Axis axis(const std::string& text) {
  for (Axis axis : kAxes)
    if (name(axis) == text) return axis;
  input_error("read axis \"{}\", expected tp, dp, esp, ep or edp", text);
}

int number(std::string_view text) {
  int n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : -1;
}

// As many whole numbers, with commas between them.
std::vector<int> numbers(const std::string& text, size_t count) {
  std::vector<int> all;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    all.push_back(number(std::string_view(text).substr(from, to - from)));
    from = to + 1;
  }
  if (all.size() != count || std::ranges::min(all) < 0)
    input_error("read \"{}\", expected {} whole number{}", text, count, count == 1 ? "" : "s, with commas between");
  return all;
}

// FIRST,LAST,N of the steps of a list.
std::vector<int> section(const Schedule& s, const std::string& text) {
  std::vector<int> n = numbers(text, 3);
  const int steps = static_cast<int>(s.steps.size());
  if (n[0] > n[1] || n[1] > steps || n[2] < 1)
    input_error("read section \"{}\" of a list of {} steps, expected FIRST <= LAST <= {}, and at least 1", text, steps,
                steps);
  return n;
}

using S = const Schedule&;
using A = const std::string&;

constexpr NamedRewrite kRewrites[] = {
    {"drop_duplicates", "AXIS", "an exchange of what is I over the axis becomes slice, exchange, join",
     [](S s, A a) { return drop_duplicates(s, axis(a)); }},
    {"merge_moves", "", "neighbouring moves become one where one message does the same",
     [](S s, A) { return merge_moves(s); }},
    {"unfuse_moves", "", "a fused message becomes two", [](S s, A) { return unfuse_moves(s); }},
    {"one_atom_at_a_time", "", "an exchange over several atoms becomes one over each",
     [](S s, A) { return one_atom_at_a_time(s); }},
    {"hoist", "AXIS", "slices move up and joins down through what works token by token",
     [](S s, A a) { return hoist(s, axis(a)); }},
    {"sum_in_full", "", "what is read in full precision is added up in it", [](S s, A) { return sum_in_full(s); }},
    {"split_messages", "ELEMENTS", "a message of several values becomes several of at most so many elements",
     [](S s, A a) { return split_messages(s, numbers(a, 1)[0]); }},
    {"join_chunks", "FIRST,LAST,TOGETHER", "messages of neighbouring chunks of these steps become one",
     [](S s, A a) {
       const std::vector<int> n = section(s, a);
       return join_chunks(s, {n[0], n[1], n[2]});
     }},
    {"repeat_section", "FIRST,LAST,TIMES", "these steps run once for each micro-batch",
     [](S s, A a) {
       const std::vector<int> n = section(s, a);
       return repeat_section(s, {n[0], n[1], n[2]});
     }},
    {"drop_unused", "", "steps that nobody reads go", [](S s, A) { return drop_unused(s); }},
    {"reorder", "NODE", "messages travel while there is something to compute; NODE: ranks of a node",
     [](S s, A a) { return reorder(s, even_pace(s, std::max(numbers(a, 1)[0], 1))); }},
    {"lower", "", "steps that depend on counts of rows are given their tables; last of all",
     [](S s, A) { return lower(s); }},
};

const NamedRewrite& find(const std::string& name) {
  std::vector<std::string> names;
  for (const NamedRewrite& rewrite : kRewrites) {
    if (rewrite.name == name) return rewrite;
    names.emplace_back(rewrite.name);
  }
  const std::string near = nearest(name, names);
  if (near.empty()) input_error("unknown rewrite {}; there are {}", name, join(names, ", "));
  input_error("unknown rewrite {}; did you mean {}?", name, near);
}

}  // namespace

std::span<const NamedRewrite> named_rewrites() { return kRewrites; }

Schedule rewritten(const Schedule& schedule, const std::string& request) {
  const size_t equals = std::min(request.find('='), request.size());
  const NamedRewrite& rewrite = find(request.substr(0, equals));
  const std::string argument = request.substr(std::min(equals + 1, request.size()));
  if (rewrite.argument.empty() != argument.empty())
    input_error("rewrite {}: read \"{}\", expected {}{}{}", rewrite.name, request, rewrite.name,
                rewrite.argument.empty() ? " alone" : "=", rewrite.argument);
  try {
    return rewrite.apply(schedule, argument);
  } catch (const InputError& error) {
    input_error("rewrite {}: {}", request, error.what());
  }
}

}  // namespace plait
