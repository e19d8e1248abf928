// A schedule as text: printed, parsed, printed again; and what is said of text that is none.
#include "schedule/text.h"

#include <gtest/gtest.h>

#include <regex>

#include "passes/lower.h"
#include "passes/rewrite.h"
#include "passes/testing/families.h"
#include "schedule/testing/random_text.h"
#include "schedule/typing.h"

namespace plait::oracle {
namespace {

void expect_round_trip(const Schedule& s) {
  const std::string text = print(s);
  const Schedule parsed = parse_schedule(text);
  EXPECT_EQ(print(parsed), text);
  EXPECT_EQ(parsed.steps.size(), s.steps.size());
  EXPECT_EQ(parsed.cotangent_of.size(), s.cotangent_of.size());
  if (!s.outputs.empty()) {
    EXPECT_EQ(fingerprint(parsed, parsed.outputs[0]), fingerprint(s, s.outputs[0]));
  }
}

TEST(Text, of_forward_backward_and_lowered_schedules_parses_to_itself) {
  for (const MeshSize& mesh : kLayouts) {
    for (Family family : kFamilies) {
      for (int64_t capacity : {0, 8}) {
        if (!fits(family, mesh)) continue;
        const Toy toy{.family = family,
                      .mesh = mesh,
                      .layers = 2,
                      .chunks = capacity && mesh.tp < 8 ? 2 : 1,
                      .residual = Residual::yes,
                      .capacity = capacity,
                      .drop = capacity ? Drop::position : Drop::none};
        const Model model = build(toy);
        const Schedule whole = differentiate(model.schedule, model.loss).schedule;
        expect_round_trip(model.schedule);
        expect_round_trip(whole);
        expect_round_trip(lower(whole));
      }
    }
  }
}

TEST(Text, parses_to_what_computes_the_same) {
  const Outcome o = perform(build({.family = Family::s2, .mesh = {8, 4, 2, 4}}), {});
  const Schedule parsed = parse_schedule(print(o.lowered));
  const Execution run = interpret(parsed, feed(parsed, {}));
  for (const auto& [leaf, gradient] : o.differentiated.gradients) {
    const std::string& name = o.lowered.names[gradient];
    EXPECT_EQ(run.values[parsed.find(name)], o.trace.values[gradient]) << name;
  }
}

TEST(Text, keeps_a_repeated_section) {
  const Model model = build({.mesh = {4, 2, 2, 2}});
  const Schedule s = repeat_section(model.schedule, {0, static_cast<int>(model.schedule.steps.size()), 3});
  ASSERT_TRUE(s.repeat);
  const Schedule parsed = parse_schedule(print(s));
  ASSERT_TRUE(parsed.repeat);
  EXPECT_EQ(*parsed.repeat, *s.repeat);
  expect_round_trip(s);
}

// One of each op that the toy has not, as text.
constexpr const char* kTransformer = R"(plait schedule 1
mesh ranks=4 tp=2 esp=2 ep=2
leaf parameter %table : real [V=8/tp.esp, D=4]
leaf parameter %gain : real [D=4]
leaf parameter %w : real [D=4, H=4/tp.esp, A=2]
leaf data %ids : int [T=16/dp.ep]
leaf data %targets : int [T=16/dp.ep]
leaf data %weight : side [T=16/dp.ep]
leaf data %mask : side [T=16/dp.ep]
leaf data %inverse : side []
leaf scalar %lr : side []
leaf scalar %step : side []
leaf state %m : side [D=4]
leaf state %v : side [D=4]
%gain_in = enter(%gain) dp.ep:I>R tp.esp:I>R : real [D=4] R(dp.ep tp.esp)
%table_in = enter(%table) dp.ep:I>R : real [V=8/tp.esp, D=4] R(dp.ep)
%x = embed(%table_in, %ids) : real [T=16/dp.ep, D=4] P(tp.esp)
%x_sum = sum(%x) tp.esp:P>R : real [T=16/dp.ep, D=4] R(tp.esp)
%x_norm = rms_norm(%x_sum, %gain_in) eps=1e-05 : real [T=16/dp.ep, D=4] R(tp.esp)
%x_half = scale(%x_norm) factor=0.5 : real [T=16/dp.ep, D=4] R(tp.esp)
%w_in = enter(%w) dp.ep:I>R : real [D=4, H=4/tp.esp, A=2] R(dp.ep)
%heads = einsum(%x_half, %w_in) out=T,H,A : real [T=16/dp.ep, H=4/tp.esp, A=2]
%q = unflatten(%heads) dim=T major=B minor=S minor_size=4 : real [B=4/dp.ep, S=4, H=4/tp.esp, A=2]
%turned = rope(%q) theta=10000 direction=forward : real [B=4/dp.ep, S=4, H=4/tp.esp, A=2]
%gelu = activate(%turned) act=gelu glu=false : real [B=4/dp.ep, S=4, H=4/tp.esp, A=2]
%flat = flatten(%gelu) dim=T major=B minor=S : real [T=16/dp.ep, H=4/tp.esp, A=2]
%back = einsum(%flat, %w_in) out=T,D : real [T=16/dp.ep, D=4] P(tp.esp)
%back_sum = leave(%back) tp.esp:P>I : real [T=16/dp.ep, D=4]
%back_in = enter(%back_sum) tp.esp:I>R : real [T=16/dp.ep, D=4] R(tp.esp)
%z = einsum(%back_in, %table_in) out=T,V : real [T=16/dp.ep, V=8/tp.esp]
%top = row_max(%z) : side [T=16/dp.ep, m0=2/tp.esp]
%tops = join(%top) tp.esp:S(m0)>I : side [T=16/dp.ep, m0=2]
%s, %c = exp_sum_target(%z, %tops, %targets) : real [T=16/dp.ep] P(tp.esp) ; real [T=16/dp.ep] P(tp.esp)
%s_sum, %c_sum = leave(%s, %c) tp.esp:P>I : real [T=16/dp.ep] ; real [T=16/dp.ep]
%part = nll(%s_sum, %c_sum, %weight) : real [] P(dp.ep)
%loss = leave(%part) dp.ep:P>I : real []
%packed = pack(%w_in) size=20 : real [Z=40/tp.esp] R(dp.ep)
%unpacked = unpack(%packed) dims=[D=4, H=4/tp.esp, A=2] : real [D=4, H=4/tp.esp, A=2] R(dp.ep)
%square = sum_squares(%gain) : side []
%norm, %factor = clip_factor(%square) clip=1 : side [] ; side []
%gain_new, %m_new, %v_new = adamw(%gain, %gain, %m, %v, %factor, %lr, %step) beta1=0.9 beta2=0.95 eps=1e-08 weight_decay=0.1 : real [D=4] ; side [D=4] ; side [D=4]
%table_new = sgd(%table, %table, %factor, %lr) weight_decay=0.25 : real [V=8/tp.esp, D=4]
outputs %loss
)";

TEST(Text, of_every_other_op_parses_to_itself) {
  const Schedule s = parse_schedule(kTransformer);
  EXPECT_EQ(print(s), kTransformer);
  Schedule forward = s;
  forward.steps.resize(forward.steps.size() - 4);
  const Schedule whole = differentiate(forward, forward.find("loss")).schedule;
  expect_round_trip(whole);
  EXPECT_NE(print(whole).find("embed_grad(%d_x, %ids) vocab=V=8/tp.esp : real [V=8/tp.esp, D=4]"), std::string::npos)
      << print(whole);
}

constexpr const char* kHead = "plait schedule 1\nmesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real [T=4]\n";

TEST(Text, takes_comments_empty_lines_tabs_and_the_line_ends_of_other_systems) {
  const char* text =
      "# a title\n\nplait schedule 1\r\n\tmesh ranks=2 tp=2 esp=2 ep=1\r\n  # nothing\nleaf data %x :\tside [T=4]\r\n";
  EXPECT_EQ(parse_schedule(text).leaves.size(), 1u);
}

TEST(Text, takes_fields_in_any_order) {
  const Schedule s = parse_schedule(std::string(kHead) + "%y = activate(%x) glu=false act=gelu\n");
  EXPECT_EQ(print_op(s.mesh, s.steps[0].op), "activate act=gelu glu=false");
}

std::string fault(const std::string& text) {
  try {
    parse_schedule(text, "own.txt");
    return "accepted";
  } catch (const InputError& e) {
    return e.what();
  }
}

struct BadText {
  const char* line;  // the fourth
  const char* says;
};

TEST(Text, that_is_no_schedule_is_refused_with_the_number_of_its_line) {
  const std::vector<BadText> all = {
      {"%y = scale(%x) factor=two", "own.txt:4: read \"two\" (column 23), expected a number"},
      {"%y = scale(%x) factor=nan", "own.txt:4: read \"nan\" (column 23), expected a number"},
      {"%y = scale(%x)", "own.txt:4: read the end of the line (column 15), expected also factor=.. of scale"},
      {"%y = scale(%x) facter=2",
       "own.txt:4: read \"facter=2\" (column 16), expected a field of this scale (factor); did you mean factor?"},
      {"%y = scale(%x) factor=2 by=3", "read \"by=3\" (column 25), expected a field of this scale (factor)"},
      {"%y = scale(%x) factor=2 factor=3", "read \"factor=3\" (column 25), expected factor once"},
      {"%y = add(%x) factor=2", "read \"factor=2\" (column 14), expected no field: add has none"},
      {"%y = scale(%x) factor", "read \"factor\" (column 16), expected a field, name=value"},
      {"%y = scald(%x) factor=2",
       "own.txt:4: read \"scald(%x) factor=2\" (column 6), expected a known op, not scald; did you mean scale?"},
      {"%y = gater(%x) tp.esp:S(T)>R", "expected a known op, not gater; did you mean gather?"},
      {"%y = exchange+foo(%x) tp.esp:S(T)>R", "expected a known op, not exchange+foo"},
      {"%y = enter(%x) tp.esp:I>S(T)",
       "read \"enter(%x) tp.esp:I>S(T)\" (column 6), expected slice: that is what its "
       "legs do"},
      {"%y = scale(%z) factor=2", "read \"%z) factor=2\" (column 12), expected a value made above, not %z"},
      {"%y = scale(%x_) factor=2", "expected a value made above, not %x_; did you mean %x?"},
      {"%y = scale(%y) factor=2", "expected a value made above, %y is made on line 4"},
      {"%x = scale(%x) factor=2",
       "read \"%x = scale(%x) factor=2\" (column 1), expected a new name, %x is taken by "
       "line 3"},
      {"%y, %y = scale(%x) factor=2", "expected a new name, %y is taken by line 4"},
      {"%y scale(%x) factor=2", "own.txt:4: read \"scale(%x) factor=2\" (column 4), expected \"=\""},
      {"%y = enter(%x) pp:I>R", "expected an axis of the mesh (tp.esp), not pp"},
      {"%y = enter(%x) tp.ep:I>R", "expected an axis of the mesh (tp.esp), not tp.ep; did you mean tp.esp?"},
      {"%y = enter(%x) tp.esp:I>Q", "read \"Q\" (column 25), expected I, R, P or S(dim)"},
      {"%y = activate(%x) act=tanh glu=false", "read \"tanh\" (column 23), expected one of silu, gelu, relu"},
      {"%y = activate(%x) act=sliu glu=false", "expected one of silu, gelu, relu; did you mean silu?"},
      {"%y = activate(%x) act=silu glu=maybe", "read \"maybe\" (column 32), expected true or false, not maybe"},
      {"%y, %z = split(%x) dim=T id=s parts=2.5",
       "read \"2.5\" (column 37), expected a whole number from 1 to 1048576"},
      {"%y = split(%x) dim=T id=s parts=0", "read \"0\" (column 33), expected a whole number from 1 to 1048576"},
      {"%y = scale(%x) factor=2 : real [T=4] and more",
       "own.txt:4: read \"and more\" (column 38), expected the end of the line"},
      {"%y = scale(%x) factor=2 : real T=4", "read \"T=4\" (column 32), expected \"[\""},
      {"%y = scale(%x) factor=2 : reel [T=4]", "or places<r,0>; did you mean real?"},
      {"%y = scale(%x) factor=2 : real [T=8]", "own.txt:4: %y: the text says real [T=8], it is real [T=4]"},
      {"leaf friend %y : real [T=4]",
       "expected a kind of leaf (parameter, state, data, scalar, seed, sum), not friend"},
      {"leaf paramter %y : real [T=4]", "not paramter; did you mean parameter?"},
      {"leaf data %y : real [T=4] tail", "read \"tail\" (column 27), expected the end of the line"},
      {"leaf data %y : real [T=4, T=2]", "read \"T=2]\" (column 27), expected each dim once"},
      {"leaf data %y : real [T=3/tp.esp]", "expected a size of T that its stack divides"},
      {"leaf data %y : real [T=4/tp.esp, D=4/tp.esp]", "expected each axis once in the stacks"},
      {"leaf data %y : real [T=4/tp.esp] R(tp.esp)", "expected each axis once: in a stack, R(..) or P(..)"},
      {"leaf data %y : real [T=0]", "read \"0]\" (column 24), expected a whole number from 1 to 1099511627776"},
      {"leaf data %y : real [T=four]", "read \"four]\" (column 24), expected a whole number"},
      {"leaf data %y : real [T=4", "read the end of the line (column 25), expected \",\""},
      {"leef data %y : real [T=4]",
       "expected a line of the list: leaf .., %x = op(..), outputs .. or repeat ..; did "
       "you mean leaf?"},
      {"mesh ranks=2 tp=2 esp=2 ep=1", "read \"mesh ranks=2 tp=2 esp=2 \" (column 1), expected a line of the list"},
      {"precision mixed", "expected precision above all leaves and steps"},
      {"outputs %q", "expected a value made above, not %q"},
      {"outputs %x\n%y = scale(%x) factor=2",
       "own.txt:5: read \"%y = scale(%x) factor=2\" (column 1), expected the end "
       "of the file, or repeat: outputs end a list"},
      {"repeat 0 1", "read the end of the line (column 11), expected a whole number from 1"},
      {"repeat 0 0 1\nrepeat 0 0 1", "own.txt:5: read \"repeat 0 0 1\" (column 1), expected the end of the file"},
      {"nonsense", "own.txt:4: read \"nonsense\" (column 1), expected a line of the list"},
  };
  for (const BadText& bad : all) {
    const std::string what = fault(std::string(kHead) + bad.line + "\n");
    EXPECT_NE(what.find(bad.says), std::string::npos) << what << "\nlacks: " << bad.says;
    EXPECT_EQ(what.substr(0, 8), "own.txt:") << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

TEST(Text, that_begins_as_no_schedule_does_is_refused) {
  const std::vector<std::pair<std::string, std::string>> all = {
      {"", "own.txt:1: read the end of the file, expected the line \"plait schedule 1\""},
      {"# nothing\n", "own.txt:2: read the end of the file, expected the line \"plait schedule 1\""},
      {"mesh ranks=2 tp=2 esp=2 ep=1\n",
       "own.txt:1: read \"mesh ranks=2 tp=2 esp=2 \" (column 1), expected the line "
       "\"plait schedule 1\" first: add it"},
      {"plait schedule 2\n",
       "own.txt:1: read \"plait schedule 2\" (column 1), expected \"plait schedule 1\", the "
       "version that this program reads"},
      {"plait schedule 1\n", "own.txt:2: read the end of the file, expected the line mesh ranks=.."},
      {"plait schedule 1\nleaf data %x : real []\n",
       "own.txt:2: read \"leaf data %x : real []\" (column 1), expected the line mesh ranks=.. tp=.. esp=.. ep=.."},
      {"plait schedule 1\nmesh ranks=6 tp=4 esp=2 ep=3\n",
       "own.txt:2: mesh: the grids tp 4 and esp 2 x ep 3 on 6 ranks have no common refinement: 4 does not divide 6"},
      {"plait schedule 1\nmesh ranks=6 tp=4\n",
       "own.txt:2: read the end of the line (column 18), expected also esp=.. of the mesh"},
      {"plait schedule 1\nmesh ranks=6 pt=4\n",
       "own.txt:2: read \"pt=4\" (column 14), expected ranks=, tp=, esp=, ep= or node="},
      {"plait schedule 1\nmesh tp=2 tp=2\n", "own.txt:2: read \"tp=2\" (column 11), expected tp once"},
      {"plait schedule 1\nmesh ranks=0\n",
       "own.txt:2: read \"0\" (column 12), expected a whole number from 1 to 1048576"},
      {std::string("\x7f"
                   "ELF\0\1\2",
                   7),
       "own.txt:1: read a binary file, expected a schedule as text, the line \"plait schedule 1\" first"},
  };
  for (const auto& [text, says] : all) EXPECT_EQ(fault(text), says);
}

TEST(Text, that_does_not_type_is_refused_as_check_refuses_it_with_its_line) {
  const std::string head = kHead;
  EXPECT_EQ(fault(head + "%y = leave(%x) tp.esp:P>I\n"),
            "own.txt:4: step 0 leave -> %y: %x over tp.esp: leave needs P, the value is I");
  EXPECT_EQ(fault(head + "# between\n%y = enter(%x) tp.esp:I>R\noutputs %y\n"),
            "own.txt:6: output %y over tp.esp: is R, must be I: leave or join it");
  EXPECT_EQ(fault(head + "%y, %z = scale(%x) factor=2\n"),
            "own.txt:4: step 0 scale -> %y: makes 1 values, the list names 2");
  EXPECT_EQ(fault(head + "%y = add()\n"), "own.txt:4: step 0 add -> %y: has no operands");
  EXPECT_EQ(fault(head + "repeat 0 2 2\n"),
            "own.txt:4: repeat 0 2 2: is no section of a list of 0 steps: first <= last <= 0, times >= 1");
}

TEST(Text, of_a_section_beyond_the_list_or_a_wrong_seed_is_refused) {
  const std::string head =
      "plait schedule 1\nmesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real []\n%y = scale(%x) factor=2\n";
  EXPECT_NO_THROW(parse_schedule(head + "leaf seed %seed : real [] of %y\n"));
  EXPECT_THROW(parse_schedule(head + "leaf seed %seed : real [] R(tp.esp) of %y\n"), TypeFault);
  EXPECT_EQ(fault(head + "leaf seed %seed : real [] R(tp.esp) of %y\n").substr(0, 11), "own.txt:5: ");
  EXPECT_THROW(parse_schedule(head + "repeat 0 2 2\n"), TypeFault);
}

TEST(Text, of_each_op_is_read_back_with_all_its_fields) {
  const Mesh mesh({4, 2, 2, 2});
  for (const Op& op : filled_ops()) {
    const std::string text = print_op(mesh, op);
    EXPECT_EQ(print_op(mesh, parse_op(mesh, text)), text);
    EXPECT_EQ(parse_op(mesh, text), op) << text;
  }
}

TEST(Text, is_described_by_the_grammar_of_the_ops) {
  const std::string grammar = "\n" + op_grammar();
  EXPECT_NE(grammar.find("\neinsum out=LABELS\n"), std::string::npos) << grammar;
  EXPECT_NE(grammar.find("\nmove LEG..\n"), std::string::npos);
  EXPECT_NE(grammar.find(" [sample=none|gumbel] [expert_groups=COUNT]"), std::string::npos);
  for (const Op& op : filled_ops())
    EXPECT_NE(grammar.find(fmt::format("\n{}", name(op))), std::string::npos) << name(op);
}

TEST(Text, edited_at_random_is_a_schedule_or_has_one_line_that_says_where_it_is_not) {
  std::vector<std::string> texts = {kTransformer};
  for (int64_t capacity : {0, 4}) {
    const Model model = build({.family = Family::s2, .mesh = {4, 2, 2, 2}, .capacity = capacity});
    texts.push_back(print(lower(differentiate(model.schedule, model.loss).schedule)));
  }
  texts.push_back(print(build({.family = Family::parm, .mesh = {4, 2, 2, 2}}).schedule));
  texts.push_back(print(lower(build({.mesh = {4, 1, 1, 4, 2}, .across = Across::node}).schedule)));
  TextDice dice(1);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = texts[dice.below(texts.size())];
    for (size_t edits = 1 + dice.below(3); edits > 0; --edits) text = edited(text, dice);
    const std::string what = fault(text);
    if (what == "accepted") continue;
    ++refused;
    EXPECT_EQ(what.substr(0, 8), "own.txt:") << what << "\n" << text;
    EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(what[8]))) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
  EXPECT_GT(refused, 2000);
}

// Values of all kinds that ops read.
const std::vector<std::string> kOperands = {"real []",
                                            "side []",
                                            "int []",
                                            "real [T=16/dp.ep]",
                                            "int [T=16/dp.ep]",
                                            "side [T=16/dp.ep, m0=2]",
                                            "real [T=16/dp.ep, D=4]",
                                            "real [T=16/dp.ep, D=4] P(tp.esp)",
                                            "real [T=16/dp.ep, E=4]",
                                            "side [T=16/dp.ep, E=4]",
                                            "int [T=16/dp.ep, K=2]",
                                            "real [T=16/dp.ep, K=2]",
                                            "real [V=8/tp.esp, D=4]",
                                            "real [D=4]",
                                            "side [D=4]",
                                            "real [E=4]",
                                            "side [E=4]",
                                            "real [E=4, D=4]",
                                            "real [W=4, E=4]",
                                            "side [W=4]",
                                            "real [B=4, S=4, H=4, A=2]",
                                            "real [B=4, S=4, J=2, A=2]",
                                            "side [B=4, H=4, S=4]",
                                            "real [E=4, g1=2/dp.ep, g0=2, C=8~some.name, D=4]",
                                            "int [E=2, g1=2/dp.ep, g0=2, C=8~r, K=2]",
                                            "real [E=4, W=1, C=8, D=4]",
                                            "table<some.name> [E=4, g1=2/dp.ep, g0=2]",
                                            "table<r> [E=2, g1=2, g0=2]",
                                            "places<some.name,0> [T=16/dp.ep, K=2]",
                                            "places<r,0> [E=2, g1=2, g0=2, C=8~r, K=2]",
                                            "real [F=4, U=2, D=4]",
                                            "real [Z=32]",
                                            "real [T=8/s#0:2]",
                                            "full side [T=16]"};

// As well with fields of 1, which any count divides.
TEST(Text, of_any_op_on_any_operands_types_or_has_one_line_that_says_why_not) {
  std::string head = "plait schedule 1\nmesh ranks=4 tp=2 esp=2 ep=2\n";
  for (size_t i = 0; i < kOperands.size(); ++i) head += fmt::format("leaf data %v{} : {}\n", i, kOperands[i]);
  const Mesh mesh({4, 2, 2, 2});
  const std::vector<Op> ops = filled_ops();
  TextDice dice(2);
  int accepted = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string op = print_op(mesh, dice.pick(ops));
    if (dice.below(2)) op = std::regex_replace(op, std::regex("=[0-9]+( |$)"), "=1$1");
    if (dice.below(2)) op = std::regex_replace(op, std::regex("capacity=[0-9]+"), "capacity=0");
    if (dice.below(2)) op = std::regex_replace(op, std::regex("=some.name"), dice.below(2) ? "=T" : "=D");
    std::string operands, results = "%y0";
    for (size_t n = dice.below(8); n > 0; --n)
      operands += fmt::format("%v{}{}", dice.below(kOperands.size()), n > 1 ? ", " : "");
    for (size_t n = dice.below(3); n > 0; --n) results += fmt::format(", %y{}", n);
    const size_t end = std::min(op.find(' '), op.size());
    const std::string line = fmt::format("{} = {}({}){}\n", results, op.substr(0, end), operands, op.substr(end));
    SCOPED_TRACE(line);
    const std::string what = fault(head + line);
    accepted += what == "accepted";
    if (what != "accepted") EXPECT_EQ(what.substr(0, 10), "own.txt:37") << what;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace plait::oracle
