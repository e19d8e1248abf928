#include "base/errors.h"
#include "model/architectures/code.h"

namespace plait {

const ArchitectureCode& code_of(const Architecture& architecture) {
  if (architecture.code) return *architecture.code;
  if (architecture.name == architectures::mixtral.name) return architectures::mixtral_code;
  throw ContractError("an architecture of Plait has its code in model/architectures");
}

}  // namespace plait
