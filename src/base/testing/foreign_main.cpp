// A program for a processor that nobody made, one that has every instruction set; it must not get here.
#include "base/processor.h"

#define PLAIT_TRUE(name, macro) true,

namespace plait {

constexpr InstructionSets kBuiltFor = {{PLAIT_INSTRUCTION_SETS(PLAIT_TRUE)}};

namespace {

// What would die of an instruction that is not there: the check comes before any initialiser.
const struct Early {
  Early() { __builtin_trap(); }
} early;

}  // namespace
}  // namespace plait

int main() { return 0; }
