// A program that needs more than its processor has says so in one line.
#include "base/processor.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace plait {
namespace {

#define PLAIT_NAME(name, macro) name,
constexpr std::string_view kNames[] = {PLAIT_INSTRUCTION_SETS(PLAIT_NAME)};

InstructionSets sets(const std::vector<std::string_view>& names) {
  InstructionSets some = {};
  for (size_t i = 0; i < kInstructionSets; ++i)
    for (std::string_view name : names) some.has[i] = some.has[i] || kNames[i] == name;
  return some;
}

std::string refusal(const InstructionSets& needed, const InstructionSets& there) {
  const RefusalLine line = refusal_of_processor("plait", needed, there);
  return {line.text, line.size};
}

TEST(Processor, has_what_this_program_was_built_for) {
  EXPECT_EQ(refusal(kBuiltFor, instruction_sets()), "");
  EXPECT_EQ(refusal(sets({"avx2"}), sets({"avx2", "avx512f"})), "") << "more is no harm";
}

TEST(Processor, without_avx512_is_told_which_the_program_needs) {
  EXPECT_EQ(refusal(sets({"avx2", "gfni", "avx512f", "avx512bf16"}), sets({"avx2"})),
            "plait was built for AVX-512 (avx512f, avx512bf16), this processor has none: build it here, or with cmake "
            "-DPLAIT_ARCH=x86-64-v3\n");
}

TEST(Processor, with_some_sets_is_told_of_the_others) {
  EXPECT_EQ(refusal(sets({"avx512f", "avx512bf16", "amx-tile"}), sets({"avx512f"})),
            "plait was built for avx512bf16, amx-tile, which this processor has not: build it here, or with cmake "
            "-DPLAIT_ARCH=x86-64-v3\n");
}

TEST(Processor, too_old_for_x86_64_v3_is_told_what_suits_all) {
  EXPECT_EQ(refusal(sets({"avx", "avx2", "fma"}), sets({"avx"})),
            "plait was built for avx2, fma, which this processor has not: build it here, or with cmake "
            "-DPLAIT_ARCH=x86-64\n");
}

TEST(Processor, is_told_all_names_in_one_line) {
  InstructionSets all;
  for (bool& one : all.has) one = true;
  const std::string line = refusal(all, {});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_TRUE(line.ends_with("-DPLAIT_ARCH=x86-64\n")) << line;
}

}  // namespace
}  // namespace plait
