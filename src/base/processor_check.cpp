#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/processor.h"

namespace plait {
namespace {

#define PLAIT_NAME(name, macro) name,
#define PLAIT_ASK(name, macro) __builtin_cpu_supports(name) != 0,

const char* const kNames[] = {PLAIT_INSTRUCTION_SETS(PLAIT_NAME)};

void add(RefusalLine& line, const char* text) {
  const size_t size = strlen(text), room = sizeof line.text - line.size;
  if (size > room) return;
  memcpy(line.text + line.size, text, size);
  line.size += size;
}

// Sets that are needed and not there, of those whose names begin so.
struct Missing {
  const InstructionSets &needed, &there;
  const char* prefix = "";

  bool at(size_t set) const {
    return needed.has[set] && !there.has[set] && strncmp(kNames[set], prefix, strlen(prefix)) == 0;
  }
  bool any() const {
    for (size_t i = 0; i < kInstructionSets; ++i)
      if (at(i)) return true;
    return false;
  }
  bool has(const char* name) const {
    for (size_t i = 0; i < kInstructionSets; ++i)
      if (strcmp(kNames[i], name) == 0) return at(i);
    return false;
  }
  void list(RefusalLine& line) const {
    const char* before = "";
    for (size_t i = 0; i < kInstructionSets; ++i) {
      if (!at(i)) continue;
      add(line, before);
      add(line, kNames[i]);
      before = ", ";
    }
  }
};

// What x86-64-v3 asks for, and a processor may lack.
const char* const kV3[] = {"ssse3", "sse4.2", "popcnt", "lzcnt", "movbe", "bmi", "bmi2", "avx", "avx2", "fma", "f16c"};

bool beyond_v3(const Missing& missing) {
  for (const char* name : kV3)
    if (missing.has(name)) return true;
  return false;
}

}  // namespace

InstructionSets instruction_sets() {
  __builtin_cpu_init();
  return {{PLAIT_INSTRUCTION_SETS(PLAIT_ASK)}};
}

RefusalLine refusal_of_processor(const char* program, const InstructionSets& needed, const InstructionSets& there) {
  const Missing all{needed, there}, avx512{needed, there, "avx512"};
  RefusalLine line = {};
  if (!all.any()) return line;
  add(line, program);
  add(line, " was built for ");
  if (all.has("avx512f")) {
    add(line, "AVX-512 (");
    avx512.list(line);
    add(line, "), this processor has none");
  } else {
    all.list(line);
    add(line, ", which this processor has not");
  }
  add(line, ": build it here, or with cmake -DPLAIT_ARCH=");
  add(line, beyond_v3(all) ? "x86-64\n" : "x86-64-v3\n");
  return line;
}

}  // namespace plait

// Before any other initialiser of the program; those of libraries have run. The linker knows it by name, and no header
// declares it: a declaration before this one would take away the priority.
extern "C" __attribute__((constructor(101))) void plait_check_processor() {
  using namespace plait;
  const RefusalLine line = refusal_of_processor(program_invocation_short_name, kBuiltFor, instruction_sets());
  if (line.size == 0) return;
  if (write(STDERR_FILENO, line.text, line.size) < 0) _exit(2);
  _exit(2);
}
