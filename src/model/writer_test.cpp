// Parameters that are declared where they are read: what stands in front of the list, and in which order.
#include "model/writer.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "model/architectures/code.h"
#include "model/blocks/norm.h"
#include "schedule/text.h"

namespace plait {
namespace {

const Mesh& four() {
  static const Mesh mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2});
  return mesh;
}

ModelSizes small() {
  ModelSizes s{.sequences = 4, .positions = 4, .width = 8, .layers = 2};
  s.family = &families::ted;
  return s;
}

ValueId tokens(Writer& w) {
  Type x{.dims = {{"T", w.sizes.tokens(), stack_of(w.tokens)}, {"D", w.sizes.width}},
         .holds = std::vector<Hold>(w.b.mesh().num_atoms(), Hold::I)};
  for (Atom a : w.tokens) x.holds[a] = Hold::S;
  return w.b.leaf(LeafKind::data, "x", x);
}

Parameter weight(const Writer& w, const std::string& name) {
  return {.name = name, .dims = {{"F", 6}, {"D", w.sizes.width}}, .over = w.tokens};
}

// A norm and a product in each layer, whose weight all layers share.
void write_two_layers(Writer& w) {
  const ValueId x = tokens(w);
  for (int64_t l : {0, 1}) {
    w.begin_layer(l);
    w.product(write_rms_norm(w, x, in_layer(l, gain(w, "gain"))), weight(w, "shared"), {"T", "F"}, "y");
  }
  w.begin("end.");
}

std::vector<std::string> leaves(const Schedule& s) {
  std::vector<std::string> names;
  for (const Leaf& leaf : s.leaves) names.push_back(s.names[leaf.value]);
  return names;
}

std::vector<std::string> titles(const Schedule& s) {
  std::vector<std::string> all;
  for (const Step& step : s.steps) all.push_back(s.title(step));
  return all;
}

using Words = std::vector<std::string>;

TEST(Writer, puts_what_blocks_declare_in_front_in_the_order_of_reading) {
  const Writer w = written(four(), small(), write_two_layers);
  EXPECT_EQ(leaves(w.b.schedule()), (Words{"model.layers.0.gain", "shared", "model.layers.1.gain", "x"}));
  EXPECT_EQ(titles(w.b.schedule()), (Words{"enter", "rms_norm", "einsum", "rms_norm", "einsum"}));
  EXPECT_EQ(w.model.num_prologue, 1);
  EXPECT_EQ(w.model.parameters.size(), 3U);
}

TEST(Writer, loads_the_parameters_of_a_layer_in_it_where_they_are_shared_out) {
  ModelSizes sizes = small();
  sizes.zero = Zero::parameters;
  const Writer w = written(four(), sizes, write_two_layers);
  const Words layer = {"gather", "unpack", "rms_norm", "gather", "unpack", "einsum"};
  Words both = layer;
  both.insert(both.end(), layer.begin(), layer.end());
  EXPECT_EQ(titles(w.b.schedule()), both);
  EXPECT_EQ(w.model.num_prologue, 0);
}

TEST(Writer, tells_where_layers_begin_and_end) {
  const Writer w = written(four(), small(), write_two_layers);
  const auto& scopes = w.model.scopes;
  ASSERT_EQ(scopes.size(), 3U);
  EXPECT_EQ(scopes[1].layer, 1);
  EXPECT_EQ(w.b.schedule().names[static_cast<size_t>(scopes[1].first)], "l1.norm");
  EXPECT_EQ(scopes[2].layer, -1);
}

TEST(Writer, refuses_one_parameter_that_is_declared_in_two_ways) {
  EXPECT_THROW(written(four(), small(),
                       [](Writer& w) {
                         Parameter p = weight(w, "shared");
                         w.parameter(p);
                         p.init = Zeros{};
                         w.parameter(p);
                       }),
               ContractError);
}

TEST(Architectures, of_plait_have_their_code) {
  for (const Architecture* a : architectures::all()) EXPECT_TRUE(code_of(*a).write) << a->name;
  EXPECT_THROW(code_of({.name = "unknown"}), ContractError);
}

}  // namespace
}  // namespace plait
