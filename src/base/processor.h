// The instruction sets that a program was built for, and those that a processor has. Every program checks the two
// before its first static initialiser runs (processor_check.cpp); nothing but C stands there, compiled for any x86-64,
// for an inline function of a library might come from a file that was compiled for more.
#pragma once
#include <cstddef>

// X(name, macro) of every set that a compiler may use of its own accord: as the processor is asked for it, and the
// macro by which the compiler says that it may.
#define PLAIT_INSTRUCTION_SETS(X)                 \
  X("sse3", __SSE3__)                             \
  X("ssse3", __SSSE3__)                           \
  X("sse4.1", __SSE4_1__)                         \
  X("sse4.2", __SSE4_2__)                         \
  X("sse4a", __SSE4A__)                           \
  X("popcnt", __POPCNT__)                         \
  X("lzcnt", __LZCNT__)                           \
  X("movbe", __MOVBE__)                           \
  X("bmi", __BMI__)                               \
  X("bmi2", __BMI2__)                             \
  X("tbm", __TBM__)                               \
  X("xop", __XOP__)                               \
  X("fma4", __FMA4__)                             \
  X("avx", __AVX__)                               \
  X("avx2", __AVX2__)                             \
  X("fma", __FMA__)                               \
  X("f16c", __F16C__)                             \
  X("gfni", __GFNI__)                             \
  X("avxvnni", __AVXVNNI__)                       \
  X("avx512f", __AVX512F__)                       \
  X("avx512vl", __AVX512VL__)                     \
  X("avx512bw", __AVX512BW__)                     \
  X("avx512dq", __AVX512DQ__)                     \
  X("avx512cd", __AVX512CD__)                     \
  X("avx512er", __AVX512ER__)                     \
  X("avx512pf", __AVX512PF__)                     \
  X("avx512ifma", __AVX512IFMA__)                 \
  X("avx512vbmi", __AVX512VBMI__)                 \
  X("avx512vbmi2", __AVX512VBMI2__)               \
  X("avx512vnni", __AVX512VNNI__)                 \
  X("avx512bitalg", __AVX512BITALG__)             \
  X("avx512vpopcntdq", __AVX512VPOPCNTDQ__)       \
  X("avx512vp2intersect", __AVX512VP2INTERSECT__) \
  X("avx512bf16", __AVX512BF16__)                 \
  X("avx512fp16", __AVX512FP16__)                 \
  X("amx-tile", __AMX_TILE__)                     \
  X("amx-int8", __AMX_INT8__)                     \
  X("amx-bf16", __AMX_BF16__)

#define PLAIT_ONE_OF_THEM(name, macro) +1

namespace plait {

inline constexpr size_t kInstructionSets = 0 PLAIT_INSTRUCTION_SETS(PLAIT_ONE_OF_THEM);

// One of each set, in the order above.
struct InstructionSets {
  bool has[kInstructionSets];
};

// Those that this program was built for; a program that defines them itself is checked for its own.
extern const InstructionSets kBuiltFor;

// Those of this processor that the system lets programs use.
InstructionSets instruction_sets();

struct RefusalLine {
  char text[1024];
  size_t size;
};

// What to say to a program that needs more than there is; size 0 where it does not.
RefusalLine refusal_of_processor(const char* program, const InstructionSets& needed, const InstructionSets& there);

}  // namespace plait
