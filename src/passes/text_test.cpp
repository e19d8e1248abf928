// A schedule as text: printed, parsed, printed again; and what is said of text that is none.
#include "schedule/text.h"

#include <gtest/gtest.h>

#include "passes/lower.h"
#include "passes/rewrite.h"
#include "passes/testing/families.h"
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
constexpr const char* kTransformer = R"(mesh ranks=4 tp=2 esp=2 ep=2
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

TEST(Text, takes_comments_and_empty_lines) {
  EXPECT_EQ(parse_schedule("# a title\n\nmesh ranks=2 tp=2 esp=2 ep=1\n  # nothing\nleaf data %x : side [T=4]\n")
                .leaves.size(),
            1u);
}

struct BadText {
  const char* line;  // the third
  const char* says;
};

TEST(Text, that_is_no_schedule_is_refused_with_the_number_of_its_line) {
  const std::vector<BadText> all = {
      {"%y = scale(%x) factor=two", "schedule text line 3, column 23: read \"two\", expected a number"},
      {"%y = scale(%x)", "schedule text line 3, column 15: read \"\", expected \"factor=\""},
      {"%y = scald(%x) factor=2",
       "schedule text line 3, column 15: read \" factor=2\", expected a known op, not scald"},
      {"%y = scale(%z) factor=2", "expected a value made above, not %z"},
      {"%x = scale(%x) factor=2", "expected a new name, %x is taken"},
      {"%y scale(%x) factor=2", "schedule text line 3, column 4: read \"scale(%x) factor=2\", expected \"=\""},
      {"%y = enter(%x) pp:I>R", "expected an axis of the mesh, not pp"},
      {"%y = enter(%x) tp.esp:I>Q", "expected I, R, P or S(dim)"},
      {"%y = activate(%x) act=tanh glu=false", "expected one of silu, gelu, relu"},
      {"%y = activate(%x) act=silu glu=maybe", "expected true or false, not maybe"},
      {"%y = scale(%x) factor=2 : real [T=4] and more",
       "schedule text line 3, column 38: read \"and more\", expected the end of the line"},
      {"%y = scale(%x) factor=2 : real T=4", "expected \"[\""},
      {"%y = scale(%x) factor=2 : real [T=8]", "schedule text line 3: %y: the text says real [T=8], it is real [T=4]"},
      {"leaf friend %y : real [T=4]", "expected a kind of leaf, not friend"},
      {"leaf data %y : real [T=4] tail", "read \"tail\", expected the end of the line"},
      {"mesh ranks=6 tp=4 esp=2 ep=3",
       "schedule text line 3: mesh: the grids tp 4 and esp 2 x ep 3 on 6 ranks have no common refinement"},
      {"mesh ranks=6 tp=4", "schedule text line 3, column 18: read \"\", expected \"esp=\""},
      {"outputs %q", "expected a value made above, not %q"},
      {"repeat 0 1", "schedule text line 3, column 11: read \"\", expected a number"},
      {"nonsense", "schedule text line 3, column 1: read \"nonsense\", expected \"%\""},
  };
  for (const BadText& bad : all) {
    try {
      parse_schedule(std::string("mesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real [T=4]\n") + bad.line + "\n");
      ADD_FAILURE() << "accepted " << bad.line;
    } catch (const InputError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("schedule text line 3"), std::string::npos) << what;
      EXPECT_NE(what.find(bad.says), std::string::npos) << what << "\nlacks: " << bad.says;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }
}

TEST(Text, that_does_not_type_is_refused_as_check_refuses_it) {
  const std::string text = "mesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real [T=4]\n%y = leave(%x) tp.esp:P>I\n";
  EXPECT_THROW(
      {
        try {
          parse_schedule(text);
        } catch (const TypeFault& e) {
          EXPECT_STREQ(e.what(), "step 0 leave -> %y: %x over tp.esp: leave needs P, the value is I");
          throw;
        }
      },
      TypeFault);
}

TEST(Text, of_a_section_beyond_the_list_or_a_wrong_seed_is_refused) {
  const std::string head = "mesh ranks=2 tp=2 esp=2 ep=1\nleaf parameter %x : real []\n%y = scale(%x) factor=2\n";
  EXPECT_NO_THROW(parse_schedule(head + "leaf seed %seed : real [] of %y\n"));
  EXPECT_THROW(parse_schedule(head + "leaf seed %seed : real [] R(tp.esp) of %y\n"), TypeFault);
  EXPECT_THROW(parse_schedule(head + "repeat 0 2 2\n"), TypeFault);
}

}  // namespace
}  // namespace plait::oracle
