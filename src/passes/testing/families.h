// A toy model in every family of expert placement, for tests: a row-parallel linear layer, MoE layers, and a loss that
// is the inner product of the last layer's tokens with constants.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "passes/differentiate.h"
#include "schedule/builder.h"
#include "schedule/testing/interpret.h"

namespace plait::oracle {

// How tokens reach experts: what is sliced over tp, which moves are fused, and (parm) whether the copies that tp peers
// hold count as distinct tokens.
enum class Family { ted, dtd, s1, s2, sharded, parm };
inline constexpr Family kFamilies[] = {Family::ted, Family::dtd, Family::s1, Family::s2, Family::sharded, Family::parm};
std::string_view name(Family family);

std::string describe(const MeshSize& mesh);  // "ranks 8 tp 2 esp 2 ep 4 node 4"

// ted and dtd take tp for esp.
bool fits(Family family, const MeshSize& mesh);

// The layouts of the proof: tp other than esp, digits shared by several axes, up to 16 ranks.
extern const std::vector<MeshSize> kLayouts;
// Experts on two nodes, or on four: with and without an exchange inside a node.
extern const std::vector<MeshSize> kNodeLayouts;
inline constexpr Family kNodeFamilies[] = {Family::ted, Family::s1, Family::sharded};

enum class Residual { no, yes };
// What a gate with a capacity fills: padded slots, or rows of which it only leaves some out.
enum class Buffer { padded, ragged };
// How rows go to experts on other nodes: one by one, or a token once to each node.
enum class Across { direct, node };
// Rows of a dropless cell: as they come, or as many as in the busiest.
enum class Cells { counted, padded };
enum class Weights { whole, sharded };  // sharded: stored in slices of D over the data axis, gathered before use

struct Toy {
  Family family = Family::ted;
  MeshSize mesh;
  int64_t tokens = 8;  // of the ranks of one tp group
  int64_t width = 4, hidden = 8, experts = 4, top_k = 2;
  int layers = 1, chunks = 1;  // chunks: of the slots of a padded buffer, of the rows of a ragged one
  Residual residual = Residual::no;
  Weights weights = Weights::whole;
  int64_t capacity = 0, group = 0;  // capacity 0: dropless; group 0: the tokens that one rank gates
  Drop drop = Drop::none;
  Normalize normalize = Normalize::before;
  Buffer buffer = Buffer::padded;
  Across across = Across::direct;  // node: of ted, s1 and sharded, on a mesh with nodes
  Cells cells = Cells::counted;
  Precision precision = Precision::one;
};

// The same program on one rank, with the same gate groups.
Toy on_one_rank(const Toy& toy);
int64_t gate_group(const Toy& toy);

struct Model {
  Schedule schedule;
  ValueId y, loss;
  std::vector<ValueId> boundaries;  // tokens before the first layer and after each
};
Model build(const Toy& toy);

struct Data {
  double skew = 0;                 // pulls tokens to experts 0 and 1
  std::vector<double> mask = {1};  // by token, repeated
  uint64_t seed = 0;
};
Feed feed(const Schedule& schedule, const Data& data);

// What a schedule computed, by the names of its leaves.
struct Numbers {
  double loss = 0;
  Array y;
  std::map<std::string, Array> gradients;
};
double max_difference(const Numbers& a, const Numbers& b);

struct Outcome {
  Differentiated differentiated;
  Schedule lowered;
  Execution trace;
  Numbers numbers;
};
// Differentiates, lowers, performs.
Outcome perform(const Model& model, const Data& data, Agreement agreement = Agreement::same_bits);

}  // namespace plait::oracle
