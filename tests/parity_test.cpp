// Every layout computes what one rank computes: loss, gradients, norm, updates in float64, and equal replicas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "choices.h"
#include "corpus.h"
#include "verify/verify.h"

namespace plait {
namespace {

struct Layout {
  int64_t tp, ep, edp;
};
constexpr Layout kLayouts[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1},
                               {2, 1, 2}, {1, 2, 2}, {2, 2, 2}, {4, 2, 1}, {2, 4, 1}};

Config small(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.hidden_size=16", "model.num_hidden_layers=2", "model.intermediate_size=32",
                                  "moe.every=2",          "moe.num_experts=4",         "moe.moe_intermediate_size=16",
                                  "moe.aux_coef=0.01",    "train.batch_size=16",       "train.seq_length=8",
                                  "train.seed=3"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return ready_config("", all);
}

struct Case {
  const char *family, *gate, *capacity;
  int accumulation;
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return fmt::format("{}_{}_{}_accumulating_{}", c.family, c.gate, c.capacity[0] == 'n' ? "dropless" : "capacity",
                     c.accumulation);
}

class Parity : public testing::TestWithParam<Case> {};

TEST_P(Parity, holds_at_every_layout) {
  const Case& c = GetParam();
  const data::Corpus corpus = random_corpus();
  for (const Layout& l : kLayouts) {
    const int64_t dp = l.ep * l.edp;
    const bool top1 = std::string_view(c.gate) == "switch";
    const Config config =
        small({fmt::format("schedule.moe={}", c.family), fmt::format("moe.gate={}", c.gate),
               fmt::format("moe.num_experts_per_tok={}", top1 ? 1 : 2), fmt::format("moe.capacity={}", c.capacity),
               fmt::format("mesh.tp={}", l.tp), fmt::format("mesh.ep={}", l.ep), fmt::format("mesh.dp={}", dp),
               fmt::format("train.micro_batch_size={}", 16 / dp / c.accumulation)});
    EXPECT_EQ(near_choice(config, corpus), "");
    const VerifyReport report = verify(config, corpus);
    EXPECT_LT(report.largest(), 1e-9) << fmt::format("tp {}, ep {}, edp {}", l.tp, l.ep, l.edp);
    EXPECT_TRUE(report.replicas.empty()) << report.replicas.front();
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* family : {"ted", "dtd", "sharded"})
    for (const char* gate : {"switch", "softmax"})
      for (const char* capacity : {"none", "1.0"})
        for (int accumulation : {1, 2}) cases.push_back({family, gate, capacity, accumulation});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, Parity, testing::ValuesIn(all_cases()), name_of);

TEST(Parity, holds_where_experts_are_split_otherwise_than_attention) {
  const data::Corpus corpus = random_corpus();
  for (const auto& [tp, esp, ep, dp] :
       {std::array{2, 4, 2, 4}, {4, 2, 2, 1}, {4, 1, 4, 2}, {1, 2, 2, 4}, {2, 4, 1, 2}}) {
    const Config config = small({fmt::format("mesh.tp={}", tp), fmt::format("mesh.esp={}", esp),
                                 fmt::format("mesh.ep={}", ep), fmt::format("mesh.dp={}", dp)});
    EXPECT_EQ(near_choice(config, corpus), "");
    const VerifyReport report = verify(config, corpus);
    EXPECT_TRUE(report.agrees()) << fmt::format("tp {}, esp {}, ep {}: {:.1e}", tp, esp, ep, report.largest());
  }
}

TEST(Locate, finds_nothing_where_all_agrees_and_names_the_first_value_that_is_not_finite) {
  const data::Corpus corpus = random_corpus();
  const std::vector<std::string> layout = {"mesh.tp=2", "mesh.ep=2"};
  EXPECT_EQ(locate(small(layout), corpus), "");
  const std::string first = locate(small({"mesh.tp=2", "mesh.ep=2", "moe.aux_coef=1e308"}), corpus);
  EXPECT_NE(first.find("%gates.aux: is not finite"), std::string::npos) << first;
}

}  // namespace
}  // namespace plait
