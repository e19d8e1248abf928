// Wrong schedules, each of which someone has written by hand once, and the line that `check` answers.
#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "passes/lower.h"
#include "passes/testing/edits.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

constexpr MeshSize kA = {4, 2, 2, 2}, kB = {8, 2, 2, 2}, kD = {8, 4, 2, 4};

struct Refusal {
  const char* name;
  Toy toy;
  std::function<void(Model&)> edit;
  std::vector<std::string> says;
};

std::string answer(const Schedule& schedule) {
  try {
    check(schedule);
    return "accepted";
  } catch (const TypeFault& e) {
    return e.what();
  }
}

void expect_one_line(const std::string& line) {
  static const std::regex form("(step [0-9]+ [a-z_+]+ -> %[^ ]+: |output )%[^ ]+( over [a-z.]+)?: [^\n]+");
  EXPECT_TRUE(std::regex_match(line, form)) << line;
}

void expect_refused(const std::vector<Refusal>& all, auto&& prepare) {
  for (const Refusal& r : all) {
    SCOPED_TRACE(r.name);
    Model model = build(r.toy);
    prepare(model);
    ASSERT_EQ(answer(model.schedule), "accepted");
    r.edit(model);
    const std::string line = answer(model.schedule);
    expect_one_line(line);
    for (const std::string& part : r.says) EXPECT_NE(line.find(part), std::string::npos) << line << "\nlacks: " << part;
  }
}

Toy padded(Family family, MeshSize mesh) { return {.family = family, .mesh = mesh, .capacity = 8}; }
Toy dropless(Family family, MeshSize mesh) { return {.family = family, .mesh = mesh}; }

Toy with_slices(Toy toy) {
  toy.weights = Weights::sharded;
  return toy;
}
Toy in_chunks(Toy toy) {
  toy.chunks = 2;
  return toy;
}
Toy two_layers(Toy toy) {
  toy.layers = 2;
  return toy;
}

const Place kI = {Hold::I}, kR = {Hold::R}, kP = {Hold::P};
Place shard(const char* dim) { return {Hold::S, dim}; }

using Edit = std::function<void(Model&)>;

Edit without(std::string title, int nth = 0) {
  return [=](Model& m) { drop_step(m, find_step(m.schedule, title, nth)); };
}

Edit relegged(std::string title, int nth, std::function<void(Leg&)> change) {
  return [=](Model& m) {
    for (Leg& leg : legs_of(m.schedule, find_step(m.schedule, title, nth))) change(leg);
  };
}
Edit sent_to(std::string title, int nth, Place to) {
  return relegged(title, nth, [=](Leg& leg) { leg.to = to; });
}
Edit one_leg(std::string title, int nth, Leg leg) {
  return [=](Model& m) { legs_of(m.schedule, find_step(m.schedule, title, nth)) = {leg}; };
}
Edit followed(std::string title, int nth, Op op) {
  return [=](Model& m) { insert_after(m, find_step(m.schedule, title, nth), op); };
}

Edit reversed(std::string title) {
  return [=](Model& m) {
    Legs& legs = legs_of(m.schedule, find_step(m.schedule, title));
    std::reverse(legs.begin(), legs.end());
  };
}

Step& step_of(Model& m, std::string_view title, int nth = 0) {
  return m.schedule.steps[find_step(m.schedule, title, nth)];
}

// The move that enters a parameter.
Legs& enter_of(Model& m, std::string_view leaf) {
  for (Step& step : m.schedule.steps)
    if (step.in[0] == m.schedule.find(leaf)) return std::get<Move>(step.op).legs;
  throw std::logic_error("no such leaf");
}

void gate_weight_not_entered_over_tp(Model& m) {
  std::erase_if(enter_of(m, "Wg_0"), [](const Leg& leg) { return leg.atom == 0; });
}
void gate_weight_entered_over_tp(Model& m) { enter_of(m, "Wg_0").push_back({0, kI, kR}); }

void add_residual_to_slice(Model& m) {
  const int at = find_step(m.schedule, "decode");
  const ValueId y = m.schedule.steps[at].out[0], sum = insert_step(m.schedule, at + 1, Add{}, {y, m.boundaries[0]});
  read_instead(m.schedule, y, sum, at + 2);
}

void encode_all_tokens(Model& m) { step_of(m, "encode").in[0] = m.boundaries[0]; }

void swap_chunks(Model& m) { std::swap(step_of(m, "concat").in[0], step_of(m, "concat").in[1]); }

// One slice before the split instead of one for each chunk: the slots come back permuted.
void slice_before_split(Model& m) {
  const int split = find_step(m.schedule, "split");
  const Legs cut = legs_of(m.schedule, find_step(m.schedule, "slice"));
  const ValueId once = insert_step(m.schedule, split, Move{cut}, m.schedule.steps[split].in);
  m.schedule.steps[split + 1].in = {once};
  for (int i = 0; i < 2; ++i) drop_step(m, find_step(m.schedule, "slice", 1));
}

const std::vector<Refusal> kWithCapacity = {
    {"ted: no enter before the column-sharded product",
     padded(Family::ted, kA),
     without("enter", -1),
     {"einsum -> %up: %exchange over tp.esp: is I beside %W1_0 which is S(F)", "enter"}},
    {"s1: the gate's weight not entered over tp",
     padded(Family::s1, kA),
     gate_weight_not_entered_over_tp,
     {"einsum -> %logits: %enter_2 over tp.esp: is I beside %slice_2 which is S(T)", "enter"}},
    {"ted: no leave after the second product",
     padded(Family::ted, kA),
     without("leave", 1),
     {"decode -> %y: %route over tp.esp: is I beside %exchange_2 which is P"}},
    {"ted: no leave after the row-parallel layer",
     padded(Family::ted, kA),
     without("leave", 0),
     {"einsum -> %logits: %enter_2 over tp.esp: is I beside %h which is P"}},
    {"s2: the last join written as gather",
     padded(Family::s2, kA),
     sent_to("join", 0, kR),
     {"decode -> %y: %route over tp.esp: is I beside %join which is R"}},
    {"sharded: gather written as join",
     padded(Family::sharded, kA),
     sent_to("gather", 0, kI),
     {"einsum -> %up: %gather over tp.esp: is I beside %W1_0 which is S(F)", "enter"}},
    {"dtd: slice written as part",
     padded(Family::dtd, kA),
     relegged("slice", 0, [](Leg& leg) { leg.from = kR; }),
     {"part -> %slice: %rows over tp.esp: part needs R, the value is I"}},
    {"ted: exchange over edp instead of ep",
     padded(Family::ted, kB),
     one_leg("exchange", 0, {2, shard("g2"), shard("E")}),
     {"einsum -> %up: ", "over dp.ep: dim E is", "move one of them"}},
    {"ted: exchange over tp instead of ep",
     padded(Family::ted, kA),
     one_leg("exchange", 0, {0, shard("g0"), shard("E")}),
     {"exchange -> %exchange: %rows over tp.esp: exchange needs S(g0), the value is I"}},
    {"activation of the partial sum after the second product",
     padded(Family::ted, kA),
     followed("einsum", 3, Activate{}),
     {"activate -> ", "%down over tp.esp: is a partial sum and activate is not linear: leave or scatter it first"}},
    {"dtd: first join missing",
     padded(Family::dtd, kA),
     without("join", 0),
     {"enter -> %enter_3: %exchange over tp.esp: enter needs I, the value is S(C)"}},
    {"dtd: last join missing",
     padded(Family::dtd, kA),
     without("join", 1),
     {"decode -> %y: %exchange_2 over tp.esp: decode needs the rows back as"}},
    {"ted: W1 not entered over expert-data ranks",
     padded(Family::ted, kB),
     without("enter", 1),
     {"einsum -> %up: %W1_0 over dp.edp: is I beside", "which is S(g2)", "enter"}},
    {"sharded: scatter onto slots instead of the group dim",
     padded(Family::sharded, kA),
     sent_to("scatter", 1, shard("C")),
     {"decode -> %y: %exchange_2 over tp.esp: decode needs the rows back as"}},
    {"s1: residual adds whole tokens to slices",
     padded(Family::s1, kA),
     add_residual_to_slice,
     {"add -> ", "%leave over tp.esp: adds I to S(T)"}},
    {"ted: leave twice",
     padded(Family::ted, kA),
     followed("leave", 1, Move{{{0, kP, kI}}}),
     {"%leave_2 over tp.esp: leave needs P, the value is I"}},
    {"ted: enter twice",
     padded(Family::ted, kA),
     followed("enter", -1, Move{{{0, kI, kR}}}),
     {"%enter_3 over tp.esp: enter needs I, the value is R"}},
    {"ted: decode before the exchange back",
     padded(Family::ted, kA),
     without("exchange", 1),
     {"decode -> %y: %leave_2 over dp.ep: decode needs the rows back as"}},
    {"s1: gate on the slice, encode of all tokens",
     padded(Family::s1, kA),
     encode_all_tokens,
     {"encode -> %rows: %leave over tp.esp: dim T is"}},
    {"a weight in slices gathered on the wrong dim",
     with_slices(padded(Family::ted, kA)),
     relegged("gather", 0, [](Leg& leg) { leg.from = shard("Q"); }),
     {"gather -> %gather: %W0 over dp.ep: gather needs S(Q), the value is S(D)"}},
    {"a weight in slices used without gather",
     with_slices(padded(Family::ted, kA)),
     without("gather"),
     {"einsum -> %h: %W0 over dp.ep: operands are sharded on different dims D and T: exchange one of them"}},
    {"s2 in chunks: slice, then split, join for each chunk",
     in_chunks(padded(Family::s2, kA)),
     slice_before_split,
     {"exchange+gather -> ", "over tp.esp: dim C is split further inside, by the chunks of cap_0: undo that first"}},
    {"s2 in chunks: put together in the wrong order",
     in_chunks(padded(Family::s2, kA)),
     swap_chunks,
     {"concat -> %chunks: %join_2: is not chunk 0 of 2 of the split cap_0"}},
    {"sharded: loss not summed over ranks",
     padded(Family::sharded, kA),
     without("leave", -1),
     {"output %part over tp.esp: is P, must be I: leave or join it"}},
    {"ted: the gate's weight entered over tp though tokens are invariant",
     padded(Family::ted, kA),
     gate_weight_entered_over_tp,
     {"einsum -> %logits: %leave over tp.esp: is I beside %enter_2 which is R"}},
    {"ted: leave written as sum",
     padded(Family::ted, kA),
     sent_to("leave", 0, kR),
     {"einsum -> %logits: %enter_2 over tp.esp: is I beside %leave which is R"}},
    {"s2: the way back exchanges what is a partial sum",
     padded(Family::s2, kD),
     relegged("exchange+scatter", 0,
              [](Leg& leg) {
                if (leg.atom == 0) leg = {0, shard("E"), shard("C")};
              }),
     {"%down over tp.esp: exchange needs S(E), the value is P"}},
    {"ted: exchange back onto slots",
     padded(Family::ted, kA),
     sent_to("exchange", 1, shard("C")),
     {"decode -> %y: %exchange_2 over dp.ep: decode needs the rows back as"}},
    {"s1: legs in the wrong order of digits",
     padded(Family::s1, kD),
     reversed("exchange+gather"),
     {"einsum -> %up: %W1_0: dim E is [E=4/dp.ep/tp.ep] here, [E=4/tp.ep/dp.ep] in %exchange+gather: split both "
      "alike"}},
    {"a replicated value cannot become invariant",
     padded(Family::ted, kA),
     followed("enter", -1, Move{{{0, kR, kI}}}),
     {"over tp.esp: no move takes R to I"}},
};

TEST(Check, refuses_wrong_schedules_with_capacity) {
  EXPECT_EQ(kWithCapacity.size(), 30u);
  expect_refused(kWithCapacity, [](Model&) {});
}

TEST(Check, refuses_to_slice_slots_that_the_data_axis_holds_outside) {
  Builder b{Mesh(kA)};
  const ValueId buffer =
      b.leaf(LeafKind::parameter, "buffer", {{"E", 4}, {"C", 16, stack_of(b.mesh().axis(Axis::dp))}, {"D", 4}});
  const ValueId cut = b.slice(buffer, b.mesh().axis(Axis::tp), "C");
  try {
    b.exchange(cut, b.mesh().axis(Axis::ep), "C", "E");
    FAIL() << "accepted";
  } catch (const TypeFault& e) {
    EXPECT_NE(
        std::string(e.what()).find("%slice over dp.ep: dim C is split further inside, by tp.esp: undo that first"),
        std::string::npos)
        << e.what();
  }
}

void slice_places(Model& m) {
  const int encode = find_step(m.schedule, "encode");
  const ValueId cut = insert_step(m.schedule, encode, Move{{{0, kI, shard("T")}}}, {m.schedule.steps[encode].in[1]});
  m.schedule.steps[encode + 1].in[1] = cut;
}

void decode_by_the_other_layer(Model& m) {
  Step& second = step_of(m, "decode", 1);
  second.in = {second.in[0], step_of(m, "decode").in[1], step_of(m, "decode").in[2]};
}

void decode_by_the_other_chunk(Model& m) { step_of(m, "decode").in[2] = step_of(m, "decode", 1).in[2]; }
void add_a_chunk_twice(Model& m) { step_of(m, "add").in[0] = step_of(m, "decode", 1).in[0]; }

const std::vector<Refusal> kDropless = {
    {"rows sliced by slot",
     dropless(Family::dtd, kA),
     sent_to("slice", 0, shard("C")),
     {"slice -> %slice: %rows over tp.esp: dim C has no fixed size: move one of its group dims"}},
    {"dtd: first join missing",
     dropless(Family::dtd, kA),
     without("join", 0),
     {"enter -> %enter_3: %exchange over tp.esp: enter needs I, the value is S(g0)"}},
    {"dtd: last join missing",
     dropless(Family::dtd, kA),
     without("join", 1),
     {"decode -> %y: %exchange_2 over tp.esp: decode needs the rows back as"}},
    {"s2: the last join is a gather",
     dropless(Family::s2, kA),
     sent_to("join", 0, kR),
     {"decode -> %y: %route over tp.esp: is I beside %join which is R"}},
    {"s1: encode all tokens with the slice's routing",
     dropless(Family::s1, kA),
     encode_all_tokens,
     {"encode -> %rows: %leave over tp.esp: dim T is"}},
    {"s1: the gate's weight not entered over tp",
     dropless(Family::s1, kA),
     gate_weight_not_entered_over_tp,
     {"einsum -> %logits: %enter_2 over tp.esp: is I beside %slice_2 which is S(T)"}},
    {"places sliced instead of counted again",
     dropless(Family::ted, kA),
     slice_places,
     {"slice -> ", "%count_2: holds places in this rank's buffer: count again after the move"}},
    {"layer 1's rows decoded with layer 0's routing",
     two_layers(dropless(Family::ted, kA)),
     decode_by_the_other_layer,
     {"decode -> %y_2: %count_2: holds places of routing rows_0, this decode is of rows_1"}},
    {"exchange over the tp digit",
     dropless(Family::ted, kA),
     one_leg("exchange", 0, {0, shard("g0"), shard("E")}),
     {"%rows over tp.esp: exchange needs S(g0), the value is I"}},
    {"sharded: gather written as join",
     dropless(Family::sharded, kA),
     sent_to("gather", 0, kI),
     {"einsum -> %up: %gather over tp.esp: is I beside %W1_0 which is S(F)"}},
    {"decode before the exchange back",
     dropless(Family::ted, kA),
     without("exchange", 1),
     {"decode -> %y: %leave_2 over dp.ep: decode needs the rows back as"}},
    {"legs in the wrong order of digits",
     dropless(Family::s1, kD),
     reversed("exchange+gather"),
     {"einsum -> %up: %W1_0: dim E is [E=4/dp.ep/tp.ep] here, [E=4/tp.ep/dp.ep] in %exchange+gather: split both "
      "alike"}},
    {"cells and columns in one message",
     dropless(Family::ted, kA),
     sent_to("exchange", 0, shard("D")),
     {"%rows over dp.ep: one message moves cells of rows (g1) and their columns (D): make two moves of it"}},
    {"chunk 0's rows decoded with chunk 1's places",
     in_chunks(dropless(Family::ted, kA)),
     decode_by_the_other_chunk,
     {"decode -> %y: %exchange_2: decode needs rows [h=1/rows_0#1:2, ", "this is [h=1/rows_0#0:2, "}},
    {"the rows of a chunk added as tokens", in_chunks(dropless(Family::ted, kA)), add_a_chunk_twice, {"add -> %y_3: "}},
    {"parm: copies of what is sharded already",
     dropless(Family::parm, kA),
     followed("dup", 1, Dup{"T", {0}}),
     {"dup -> ", "%dup_2 over tp.esp: is S(T): only what all ranks hold, I, can be taken as copies"}},
    {"parm: copies picked before they are sliced apart",
     dropless(Family::parm, kA),
     without("slice"),
     {"pick -> %pick: %y over tp.esp: is I: pick needs S(T) with this axis innermost: slice it first"}},
    {"parm: copies never picked", dropless(Family::parm, kA), without("pick"), {"einsum -> %part: "}},
    {"parm: tokens gathered instead of joined before the gate",
     dropless(Family::parm, kA),
     sent_to("join", 1, kR),
     {"einsum -> %logits: ", "over tp.esp: is I beside %join_2 which is R"}},
};

TEST(Check, refuses_wrong_dropless_schedules) {
  expect_refused(kDropless, [](Model&) {});
}

void swap_tables(Model& m) { std::swap(step_of(m, "exchange+gather").in[1], step_of(m, "exchange+gather").in[2]); }
void experts_read_the_table_of_the_count(Model& m) {
  for (Step& step : m.schedule.steps)
    if (as<Einsum>(step.op) && step.in.size() == 3) step.in[2] = step_of(m, "count").out[0];
}
void exchange_by_the_other_layer(Model& m) {
  Step &first = step_of(m, "exchange", 1), &last = step_of(m, "exchange", -1);
  last.in = {last.in[0], first.in[1], first.in[2]};
}
void encode_by_the_other_layer(Model& m) { step_of(m, "encode", 1).in[2] = step_of(m, "encode").in[2]; }

const std::vector<Refusal> kLowered = {
    {"tables swapped",
     dropless(Family::s2, kA),
     swap_tables,
     {"exchange+gather -> ", "%count.", "needed is the table of rows_0 as [E=4, g1=2/dp.ep, g0=2/tp.esp]"}},
    {"experts given the table from before the exchange",
     dropless(Family::s2, kA),
     experts_read_the_table_of_the_count,
     {"einsum -> %up: %count: is table<rows_0> [E=4, g1=2/dp.ep, g0=2]",
      "needed is the table of the rows as [E=4/dp.ep, g1=2, g0=2]"}},
    {"the other layer's table",
     two_layers(dropless(Family::ted, kA)),
     exchange_by_the_other_layer,
     {"exchange -> ", "needed is the table of rows_1"}},
    {"rows made by the other layer's table",
     two_layers(dropless(Family::ted, kA)),
     encode_by_the_other_layer,
     {"encode -> %rows_2: %count: is table<rows_0>", "needed is the table of rows_1"}},
};

TEST(Check, refuses_wrong_tables_in_lowered_schedules) {
  expect_refused(kLowered, [](Model& m) { m.schedule = lower(m.schedule); });
}

}  // namespace
}  // namespace plait::oracle
