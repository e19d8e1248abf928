// Compiled as everything else is: its compiler's macros say what everything else may use.
#include "base/processor.h"

#define PLAIT_TEXT(x) #x
#define PLAIT_IS_DEFINED(name, macro) PLAIT_TEXT(macro)[0] == '1',

namespace plait {

constexpr InstructionSets kBuiltFor = {{PLAIT_INSTRUCTION_SETS(PLAIT_IS_DEFINED)}};

}  // namespace plait
