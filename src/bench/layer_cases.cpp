#include "bench/layer_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/text.h"
#include "bench/bench_config.h"
#include "config/catalogue.h"

namespace plait {
namespace {

// S tokens a rank.
struct Shape {
  int64_t S, D, F, E, K;
};
constexpr std::array<Shape, 3> kShapes = {{{2048, 512, 2048, 8, 2}, {1024, 1024, 4096, 8, 2}, {512, 256, 1024, 64, 1}}};

struct Layout {
  const char* name;
  int64_t tp, ep, threads;
};
constexpr Layout kLayouts[] = {{"1 rank x 2", 1, 1, 2}, {"ep 2", 1, 2, 1}, {"tp 2", 2, 1, 1}};

struct GateCase {
  std::string name;
  int64_t top_k;                    // 0: the shape's
  std::vector<std::string> config;  // beside moe.gate
};

std::vector<GateCase> every_gate() {
  std::vector<GateCase> all;
  for (const GateSpec* gate : built_in().gates) {
    const std::string name(gate->name);
    all.push_back({name, gate->route->top_k, {}});
    if (gate->route->chooser == Chooser::expert) all.back().config = {"moe.capacity=1.0"};
    if (gate->topk_first) all.push_back({name + ", topk_first", gate->topk_first->top_k, {"moe.order=topk_first"}});
  }
  return all;
}

const std::vector<GateCase>& gates() {
  static const std::vector<GateCase> all = every_gate();
  return all;
}

// A top-1 gate that does not renormalise, or its weights would be 1 and without a gradient.
const GateCase& usual_gate(const Shape& shape) {
  return *std::ranges::find(gates(), shape.K == 1 ? "switch" : "softmax", &GateCase::name);
}

std::string gate_key(const std::string& name) { return name.substr(0, name.find(',')); }

struct Setting {
  size_t shape;
  const Layout& layout;
  const FamilySpec& family;
  const GateCase& gate;
};

Config config_of(const Setting& s, const std::vector<std::string>& overrides) {
  const Shape& shape = kShapes[s.shape];
  const int64_t top_k = s.gate.top_k ? s.gate.top_k : shape.K;
  // The ranks of a tp group have the same tokens: as many as all of them are to have.
  std::vector<std::string> keys = {fmt::format("model.hidden_size={}", shape.D),
                                   "model.num_hidden_layers=1",
                                   "model.num_attention_heads=2",
                                   "model.hidden_act=gelu",
                                   "model.glu=false",
                                   fmt::format("moe.num_experts={}", shape.E),
                                   fmt::format("moe.num_experts_per_tok={}", top_k),
                                   fmt::format("moe.moe_intermediate_size={}", shape.F),
                                   fmt::format("moe.gate={}", gate_key(s.gate.name)),
                                   fmt::format("mesh.tp={}", s.layout.tp),
                                   fmt::format("mesh.ep={}", s.layout.ep),
                                   fmt::format("mesh.threads={}", s.layout.threads),
                                   fmt::format("schedule.moe={}", s.family.name),
                                   fmt::format("train.seq_length={}", shape.S * s.layout.tp),
                                   fmt::format("train.batch_size={}", s.layout.ep)};
  keys.insert(keys.end(), s.gate.config.begin(), s.gate.config.end());
  keys.insert(keys.end(), overrides.begin(), overrides.end());
  return bench_config("", {"bench layer", ""}, keys).config;
}

// "ep 2", "ep2" and "ep" all choose "ep 2".
bool chosen(const std::string& choice, std::string name) {
  std::erase(name, ' ');
  std::string plain = choice;
  std::erase(plain, ' ');
  return name.starts_with(plain);
}

}  // namespace

std::vector<LayerCase> layer_cases(const CaseChoice& choice) {
  std::vector<LayerCase> cases;
  const auto add = [&](const char* part, const Setting& s) {
    if (!chosen(choice.part, part) || !chosen(choice.layout, s.layout.name) ||
        !chosen(choice.family, std::string(s.family.name)) || !chosen(choice.gate, s.gate.name) ||
        (choice.shape > 0 && choice.shape != static_cast<int64_t>(s.shape) + 1))
      return;
    const Shape& shape = kShapes[s.shape];
    cases.push_back({part, static_cast<int64_t>(s.shape) + 1,
                     fmt::format("{} x {}, {} experts of {}, top-{}", shape.S, shape.D, shape.E, shape.F, shape.K),
                     s.layout.name, std::string(s.family.name), s.gate.name, config_of(s, choice.overrides)});
  };
  std::vector<const FamilySpec*> families = usual_last();
  const FamilySpec& usual = *families.back();
  std::ranges::stable_sort(families, {}, &FamilySpec::can_fuse);
  for (size_t shape = 0; shape < kShapes.size(); ++shape)
    for (const Layout& layout : kLayouts) add("shapes", {shape, layout, usual, usual_gate(kShapes[shape])});
  // The other shapes only where they are asked for: the run would last too long.
  const size_t asked = std::min<size_t>(std::max<int64_t>(choice.shape, 1), kShapes.size()) - 1;
  for (const Layout& layout : kLayouts)
    if (layout.threads == 1)
      for (const FamilySpec* family : families) add("families", {asked, layout, *family, usual_gate(kShapes[asked])});
  for (const GateCase& gate : gates()) add("gates", {asked, kLayouts[0], usual, gate});
  const size_t small = kShapes.size() - 1;
  for (const GateCase& gate : gates()) add("gates", {small, kLayouts[1], usual, gate});
  if (cases.empty())
    input_error(
        "bench layer: nothing is called that; shapes 1 to {}, parts shapes, families, gates; see the tables of "
        "a whole run for the other names",
        kShapes.size());
  return cases;
}

}  // namespace plait
