// What each op refuses, in schedules of a few steps; the wrong schedules of MoE layers stand in refusals_test.cpp.
#include <gtest/gtest.h>

#include <functional>

#include "gates/base/record.h"
#include "gates/hash/record.h"
#include "passes/differentiate.h"
#include "passes/rewrite.h"
#include "schedule/builder.h"
#include "schedule/typing.h"

namespace plait {
namespace {

constexpr Atom kTp = 0, kEp = 1;  // of the mesh below

struct Case {
  const char* name;
  std::function<void(Builder&)> write;
  const char* says;
};

void expect_refused(const Case& c) {
  SCOPED_TRACE(c.name);
  Builder b{Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2})};
  try {
    c.write(b);
    check(b.schedule());
    ADD_FAILURE() << "accepted";
  } catch (const TypeFault& e) {
    const std::string line = e.what();
    EXPECT_NE(line.find(c.says), std::string::npos) << line << "\nlacks: " << c.says;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  }
}

std::vector<Mark> over(Atom a) { return {{.atom = a}}; }

ValueId parameter(Builder& b, const char* name, std::vector<Dim> dims) {
  return b.leaf(LeafKind::parameter, name, std::move(dims));
}
ValueId data(Builder& b, const char* name, std::vector<Dim> dims) {
  return b.leaf(LeafKind::data, name, std::move(dims));
}
ValueId integers(Builder& b, const char* name, std::vector<Dim> dims) {
  Type t{.dims = std::move(dims), .holds = {Hold::I, Hold::I}, .dtype = Dtype::integer, .grad = false};
  for (const Dim& dim : t.dims)
    for (const Mark& mark : dim.stack) t.holds[mark.atom] = Hold::S;
  return b.leaf(LeafKind::data, name, t);
}

// A scalar that is a partial sum over tp.
ValueId partial(Builder& b, const std::string& name) {
  const ValueId x = parameter(b, (name + "_x").c_str(), {{"Q", 4, over(kTp)}}),
                y = data(b, (name + "_y").c_str(), {{"Q", 4, over(kTp)}});
  return b.add(Einsum{}, {x, y}, name);
}

TEST(Moves, are_refused_where_a_leg_does_not_fit) {
  const Place I = {Hold::I}, P = {Hold::P}, R = {Hold::R}, S_T = {Hold::S, "T"}, S_D = {Hold::S, "D"};
  const auto tokens = [](Builder& b) { return parameter(b, "x", {{"T", 6, over(kEp)}, {"D", 4}}); };
  const std::vector<Case> all = {
      {"no legs", [&](Builder& b) { b.add(Move{}, {tokens(b)}); }, "%x: the move has no legs"},
      {"an atom twice",
       [&](Builder& b) {
         b.move(tokens(b), {{kTp, I, R}, {kTp, I, R}});
       },
       "%x over tp.esp: has two legs"},
      {"a value that is not held so",
       [&](Builder& b) {
         b.move(tokens(b), {{kTp, P, I}});
       },
       "%x over tp.esp: leave needs P, the value is I"},
      {"a dim that is not there",
       [&](Builder& b) {
         b.move(tokens(b), {{kTp, I, {Hold::S, "F"}}});
       },
       "%x over tp.esp: has no dim F"},
      {"sizes that do not divide",
       [&](Builder& b) {
         b.move(tokens(b), {{kTp, I, S_T}});
       },
       "%x over tp.esp: dim T holds 3 entries here, which do not divide by 2"},
      {"gather and enter in one message",
       [&](Builder& b) {
         b.move(tokens(b), {{kEp, S_T, R}, {kTp, I, R}});
       },
       "enter+gather cannot travel in one message"},
      {"undoing the outer split first",
       [&](Builder& b) {
         b.move(parameter(b, "y", {{"T", 8, {{.atom = kEp}, {.atom = kTp}}}}), {{kEp, S_T, I}});
       },
       "%y over dp.ep: dim T is split further inside, by tp.esp: undo that first"},
      {"one value of several is held otherwise",
       [&](Builder& b) {
         b.move_all({tokens(b), parameter(b, "z", {{"D", 4, over(kTp)}})}, {{kTp, I, S_D}});
       },
       "%z over tp.esp: slice needs I, the value is S(D)"},
  };
  for (const Case& c : all) expect_refused(c);
}

TEST(Products, are_refused_where_operands_do_not_meet) {
  const std::vector<Case> all = {
      {"a partial sum times a partial sum",
       [](Builder& b) {
         b.add(Einsum{}, {partial(b, "p"), partial(b, "q")});
       },
       "%q over tp.esp: is a partial sum times another partial sum: leave, scatter or sum one of them first"},
      {"dims split differently",
       [](Builder& b) {
         b.add(Einsum{{"T", "F"}},
               {parameter(b, "x", {{"T", 4}, {"D", 4, over(kTp)}}), parameter(b, "w", {{"D", 4}, {"F", 2}})});
       },
       "%w over tp.esp: dim D is [D=4] here, [D=4/tp.esp] in %x: move one of them"},
      {"no single matrix product",
       [](Builder& b) {
         b.add(Einsum{{"F", "T"}},
               {parameter(b, "x", {{"T", 4}, {"D", 4}, {"C", 2}}), parameter(b, "w", {{"D", 4}, {"F", 2}, {"C", 2}})});
       },
       "is not one matrix product of known layout"},
      {"a sum of a whole and a slice",
       [](Builder& b) {
         b.add(Add{}, {parameter(b, "x", {{"T", 4}}), parameter(b, "y", {{"T", 4, over(kTp)}})});
       },
       "%y over tp.esp: adds S(T) to I: move one of them"},
      {"a sum of different dims",
       [](Builder& b) {
         b.add(Add{}, {parameter(b, "x", {{"T", 4}}), parameter(b, "y", {{"T", 8}})});
       },
       "%y: is real [T=8], %x is real [T=4]"},
      {"too many operands",
       [](Builder& b) {
         const ValueId x = parameter(b, "x", {{"T", 4}});
         b.add(Activate{}, {x, x});
       },
       "has 2 operands, activate takes 1"},
      {"no operand", [](Builder& b) { b.add(Add{}, {}); }, "has no operands"},
  };
  for (const Case& c : all) expect_refused(c);
}

TEST(Shapes, are_refused_where_they_do_not_divide) {
  const std::vector<Case> all = {
      {"split",
       [](Builder& b) {
         b.add_all(Split{"T", "s", 3}, {parameter(b, "x", {{"T", 8, over(kTp)}})});
       },
       "%x: dim T of 4 local entries does not split in 3"},
      {"concat of what is no chunk",
       [](Builder& b) {
         b.add(Concat{"T", "s"}, {parameter(b, "x", {{"T", 8}})});
       },
       "%x: is not chunk 0 of 1 of the split s"},
      {"unflatten that cuts a sequence",
       [](Builder& b) {
         b.add(Unflatten{"T", "B", "S", 4}, {parameter(b, "x", {{"T", 12, {{.atom = kEp}, {.atom = kTp}}}})});
       },
       "%x: holds 3 entries of T on a rank, which do not divide by S 4: gather over tp first"},
      {"flatten of a split minor dim",
       [](Builder& b) {
         b.add(Flatten{"T", "B", "S"}, {parameter(b, "x", {{"B", 2}, {"S", 4, over(kTp)}})});
       },
       "%x: has no whole dim S right of B"},
      {"pack that is too small",
       [](Builder& b) {
         b.add(Pack{5}, {parameter(b, "x", {{"D", 3}, {"F", 4, over(kTp)}})});
       },
       "%x: holds 6 elements on a rank, more than the 5 of the pack"},
      {"unpack of what the data ranks still share",
       [](Builder& b) {
         b.add(Unpack{{{"D", 3}, {"F", 4, over(kTp)}}},
               {parameter(b, "x", {{"Z", 32, {{.atom = kTp}, {.atom = kEp}}}})});
       },
       "%x: is real [Z=32/tp.esp/dp.ep], [D=3, F=4/tp.esp] packs as [Z=16/tp.esp]: gather or join it first"},
      {"unpack of other elements than were packed",
       [](Builder& b) {
         b.add(Unpack{{{"D", 3}, {"F", 4}}}, {parameter(b, "x", {{"Z", 8}})});
       },
       "%x: holds 12 elements on a rank, more than the 8 of the pack"},
      {"gated activation without a pair",
       [](Builder& b) {
         b.add(Activate{.glu = true}, {parameter(b, "x", {{"T", 2}, {"F", 4}})});
       },
       "%x: glu needs dims [.., U=2, F]"},
  };
  for (const Case& c : all) expect_refused(c);
}

TEST(Transformer, ops_are_refused_on_pieces_that_they_need_whole) {
  const std::vector<Dim> q = {{"B", 2}, {"S", 4}, {"H", 4, over(kTp)}, {"A", 2}},
                         kv = {{"B", 2}, {"S", 4}, {"J", 2}, {"A", 2}};
  const std::vector<Case> all = {
      {"norm of a split width",
       [](Builder& b) {
         b.add(RmsNorm{},
               {parameter(b, "x", {{"T", 4}, {"D", 4, over(kTp)}}), parameter(b, "gain", {{"D", 4, over(kTp)}})});
       },
       "%x over tp.esp: dim D must be whole for rms_norm: gather or join it first"},
      {"layer norm of a split width",
       [](Builder& b) {
         const ValueId gain = parameter(b, "gain", {{"D", 4, over(kTp)}});
         b.add(LayerNorm{}, {parameter(b, "x", {{"T", 4}, {"D", 4, over(kTp)}}), gain, gain});
       },
       "%x over tp.esp: dim D must be whole for layer_norm: gather or join it first"},
      {"layer norm with another bias",
       [](Builder& b) {
         b.add(LayerNorm{}, {parameter(b, "x", {{"T", 4}, {"D", 4}}), parameter(b, "gain", {{"D", 4}}),
                             parameter(b, "bias", {{"D", 2}})});
       },
       "%bias: is real [D=2], needed are the dims of %gain"},
      {"a bias of a partial sum",
       [](Builder& b) {
         const ValueId x = parameter(b, "x", {{"T", 4}, {"F", 4, over(kTp)}}),
                       w = parameter(b, "w", {{"D", 4}, {"F", 4, over(kTp)}});
         b.add(AddBias{}, {b.add(Einsum{{"T", "D"}}, {x, w}), parameter(b, "b", {{"D", 4}})});
       },
       "%einsum over tp.esp: is a partial sum and add_bias is not linear: leave or scatter it first"},
      {"a bias of other experts",
       [](Builder& b) {
         b.add(AddBias{}, {parameter(b, "x", {{"E", 4}, {"C", 3}, {"F", 4}}), parameter(b, "b", {{"E", 2}, {"F", 4}})});
       },
       "%b: is real [E=2, F=4], needed are dims of %x, [E=4, F=4]"},
      {"rope of split positions",
       [](Builder& b) {
         b.add(Rope{}, {parameter(b, "x", {{"B", 2}, {"S", 4, over(kTp)}, {"H", 2}, {"A", 2}})});
       },
       "%x over tp.esp: dim S must be whole for rope"},
      {"heads split and key heads not",
       [&](Builder& b) {
         b.add_all(Attention{}, {parameter(b, "q", q), parameter(b, "k", kv), parameter(b, "v", kv)});
       },
       "%k over tp.esp: query heads and key/value heads are not split alike: slice both or neither"},
      {"embedding of what are no ids",
       [](Builder& b) {
         b.add(Embed{}, {parameter(b, "table", {{"V", 4}, {"D", 2}}), integers(b, "ids", {{"N", 4}})});
       },
       "%ids: embed takes a table [V, D] and ids [T]"},
      {"log of a partial sum",
       [](Builder& b) {
         const ValueId z = parameter(b, "z", {{"T", 4}, {"V", 4, over(kTp)}}),
                       target = integers(b, "target", {{"T", 4}}), w = data(b, "w", {{"T", 4}});
         const std::vector<ValueId> sums =
             b.add_all(ExpSumTarget{}, {z, b.join(b.add(RowMax{}, {z}), {kTp}, "m0"), target});
         b.add(Nll{}, {sums[0], sums[1], w});
       },
       "%exp_sum_target over tp.esp: is a partial sum and nll is not linear: leave or scatter it first"},
      {"maxima that were not joined",
       [](Builder& b) {
         const ValueId z = parameter(b, "z", {{"T", 4}, {"V", 4, over(kTp)}});
         b.add_all(ExpSumTarget{}, {z, b.add(RowMax{}, {z}), integers(b, "target", {{"T", 4}})});
       },
       "%row_max over tp.esp: dim m0 must be whole for exp_sum_target: gather or join it first"},
  };
  for (const Case& c : all) expect_refused(c);
}

std::vector<ValueId> routes(Builder& b, std::vector<Mark> stack, int64_t group) {
  const ValueId logits = parameter(b, "logits", {{"T", 16, stack}, {"E", 4}}),
                mask = data(b, "mask", {{"T", 16, stack}});
  return b.add_all(Route{.top_k = 2, .group = group}, {logits, mask});
}

TEST(Gate, is_refused_where_it_sees_pieces) {
  const Routing rows{.id = "r", .experts = 4, .top_k = 2};
  const std::vector<Case> all = {
      {"experts split",
       [](Builder& b) {
         b.add_all(Route{}, {parameter(b, "logits", {{"T", 4}, {"E", 4, over(kTp)}}), data(b, "mask", {{"T", 4}})});
       },
       "%logits over tp.esp: route needs every expert's logit: gather E first"},
      {"more routes than experts",
       [](Builder& b) {
         b.add_all(Route{.top_k = 5}, {parameter(b, "logits", {{"T", 4}, {"E", 4}}), data(b, "mask", {{"T", 4}})});
       },
       "%logits: has 4 experts, fewer than the 5 routes of a token"},
      {"a cut gate group", [](Builder& b) { routes(b, over(kEp), 6); },
       "%logits: a rank gates 8 tokens, which gate groups of 6 cut: choose a group that divides them"},
      {"tokens that decide together in no group",
       [](Builder& b) {
         b.add_all(Route{.gate = &base_route},
                   {parameter(b, "logits", {{"T", 4}, {"E", 4}}), data(b, "mask", {{"T", 4}})});
       },
       "%logits: tokens decide together in gate base: say in groups of how many"},
      {"ids chosen by as logits",
       [](Builder& b) {
         b.add_all(Route{.gate = &hash_route},
                   {parameter(b, "logits", {{"T", 4}, {"E", 4}}), data(b, "mask", {{"T", 4}})});
       },
       "%logits: has no ids, by which gate hash chooses"},
      {"a mask of other tokens",
       [](Builder& b) {
         b.add_all(Route{}, {parameter(b, "logits", {{"T", 4, over(kTp)}, {"E", 4}}), data(b, "mask", {{"T", 4}})});
       },
       "%mask over tp.esp: dim T is"},
      {"tokens split by a fast digit first",
       [&](Builder& b) {
         const auto r = routes(b, over(kTp), 0);
         b.add_all(Count{rows}, {r[1], r[2]});
       },
       "%route_2 over tp.esp: tokens must be split by the slowest digits first"},
      {"rows by what are no places",
       [&](Builder& b) {
         const auto r = routes(b, over(kEp), 0);
         b.add(Encode{rows}, {parameter(b, "x", {{"T", 16, over(kEp)}, {"D", 2}}), r[2]});
       },
       "%route_3: is not the places of a count or arrange"},
      {"the auxiliary loss of partial means",
       [](Builder& b) {
         const auto r = routes(b, over(kEp), 0);
         const auto stats = b.add_all(GateStats{}, {b.schedule().find("logits"), b.schedule().find("mask")});
         const ValueId load = b.add_all(Load{4}, {r[1], r[2]})[0];
         b.add(Balance{.aux = 1, .top_k = 2}, {stats[0], load, stats[1], data(b, "inverse", {}), data(b, "share", {})});
       },
       "over dp.ep: is a partial sum times another partial sum: leave, scatter or sum one of them first"},
  };
  for (const Case& c : all) expect_refused(c);
}

TEST(Update, is_refused_on_gradients_that_were_not_summed) {
  const std::vector<Case> all = {
      {"sgd with a partial gradient",
       [](Builder& b) {
         const ValueId g =
             b.add(Einsum{{"D"}},
                   {parameter(b, "x", {{"T", 4, over(kEp)}}), data(b, "y", {{"T", 4, over(kEp)}, {"D", 2}})}, "g");
         b.add(Sgd{}, {parameter(b, "w", {{"D", 2}}), g, data(b, "factor", {}), data(b, "lr", {})});
       },
       "%g over dp.ep: is P, the parameter is I: leave or scatter the gradient first"},
      {"sgd with a gradient in slices",
       [](Builder& b) {
         b.add(Sgd{}, {parameter(b, "w", {{"D", 2}}), parameter(b, "g", {{"D", 2, over(kTp)}}), data(b, "factor", {}),
                       data(b, "lr", {})});
       },
       "%g over tp.esp: is S(D), the parameter is I"},
      {"the norm of a partial sum", [](Builder& b) { b.add(SumSquares{}, {partial(b, "p")}); },
       "%p over tp.esp: is a partial sum and sum_squares is not linear"},
      {"norms of values held differently",
       [](Builder& b) {
         b.add(SumSquares{}, {parameter(b, "x", {{"D", 2, over(kTp)}}), parameter(b, "y", {{"D", 2}})});
       },
       "%y: is held otherwise than %x: sum squares of values held alike"},
      {"a clip factor of a part of the norm",
       [](Builder& b) {
         b.add_all(ClipFactor{1}, {b.add(SumSquares{}, {parameter(b, "x", {{"D", 2, over(kTp)}})})});
       },
       "%sum_squares over tp.esp: is a partial sum: leave it first"},
  };
  for (const Case& c : all) expect_refused(c);
}

// x -> twice -> loss, with the schedule in the hands of the test.
Schedule small() {
  Builder b{Mesh({.ranks = 4, .tp = 2, .esp = 2, .ep = 2})};
  const ValueId x = parameter(b, "x", {{"T", 4}}), c = data(b, "c", {{"T", 4}});
  const ValueId twice = b.add(Scale{2}, {x}, "twice");
  b.schedule().outputs = {b.add(Einsum{}, {twice, c}, "loss")};
  return b.take();
}

std::string answer(const Schedule& s) {
  try {
    check(s);
    return "accepted";
  } catch (const TypeFault& e) {
    return e.what();
  }
}

TEST(List, must_make_a_value_before_it_is_read) {
  Schedule s = small();
  std::swap(s.steps[0], s.steps[1]);
  EXPECT_EQ(answer(s), "step 0 einsum -> %loss: %twice is read before it is made: order the list");
}

TEST(List, makes_a_value_once) {
  Schedule s = small();
  s.steps.insert(s.steps.begin(), s.steps[0]);
  EXPECT_EQ(answer(s), "step 1 scale -> %twice: %twice is made a second time");
}

TEST(List, makes_as_many_values_as_the_op) {
  Schedule s = small();
  s.steps[0].out.push_back(s.add_value("extra"));
  EXPECT_EQ(answer(s), "step 0 scale -> %twice: makes 1 values, the list names 2");
}

TEST(List, makes_its_outputs) {
  Schedule s = small();
  s.outputs.push_back(s.add_value("never"));
  EXPECT_EQ(answer(s), "output %never: is never made");
}

TEST(List, does_not_read_a_value_that_was_updated_in_place) {
  Schedule s = small();
  const ValueId sum = s.add_value("sum"), moved = s.add_value("moved");
  s.leaves.push_back({sum, LeafKind::sum, s.leaves[0].type});
  s.steps.insert(s.steps.begin(), Step{Accumulate{}, {sum, s.find("x")}, {moved}});
  EXPECT_EQ(answer(s), "accepted");
  s.steps[1].in[0] = sum;
  EXPECT_EQ(answer(s),
            "step 1 scale -> %twice: %sum was updated in place by step 0 accumulate -> %moved: read it earlier or read "
            "the new value");
  s.steps[1].in[0] = moved;
  s.outputs.push_back(sum);
  EXPECT_EQ(answer(s), "output %sum: was updated in place by step 0 accumulate -> %moved");
}

TEST(List, lets_only_sums_leave_a_repeated_section) {
  Schedule s = small();
  s.repeat = Repeat{0, 1, 2};
  EXPECT_EQ(answer(s), "step 1 einsum -> %loss: %twice is made in the repeated section, anew each time: accumulate it");
  s.repeat = Repeat{0, 2, 2};
  EXPECT_EQ(answer(s), "output %loss: is made in the repeated section, anew each time: accumulate it");
  EXPECT_EQ(answer(repeat_section(small(), {0, 1, 2})), "accepted");
  EXPECT_EQ(answer(repeat_section(small(), {0, 2, 2})), "accepted");
}

TEST(Differentiate, names_a_parameter_that_does_not_reach_the_loss) {
  Schedule s = small();
  const ValueId lost = s.add_value("lost");
  s.leaves.push_back({lost, LeafKind::parameter, s.leaves[0].type});
  try {
    differentiate(s, s.outputs[0]);
    FAIL();
  } catch (const TypeFault& e) {
    EXPECT_STREQ(e.what(), "differentiate: parameter %lost does not reach the loss: use it or drop it");
  }
}

}  // namespace
}  // namespace plait
