#include "apps/version.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <vector>

#include "base/processor.h"
#include "base/text.h"
#include "wire/mpi/run.h"

namespace plait {
namespace {

#define PLAIT_NAME_OF_SET(name, macro) name,
constexpr std::string_view kNames[] = {PLAIT_INSTRUCTION_SETS(PLAIT_NAME_OF_SET)};

std::string built_for() {
  std::vector<std::string> names = {"x86-64"};
  for (size_t i = 0; i < kInstructionSets; ++i)
    if (kBuiltFor.has[i]) names.emplace_back(kNames[i]);
  return join(names, " ");
}

}  // namespace

std::string version_text() {
  return fmt::format("plait {}, {}\nLibTorch {}\nMPI: {}\nbuilt for {}\n", kVersion,
                     kCommit.empty() ? "of no known commit" : fmt::format("commit {}", kCommit), TORCH_VERSION,
                     wire::mpi_library(), built_for());
}

}  // namespace plait
