#include <array>
#include <utility>

#include "base/errors.h"
#include "model/architectures/code.h"

namespace plait {

const ArchitectureCode& code_of(const Architecture& architecture) {
  using namespace architectures;
  static constexpr std::array kCodes = {std::pair{&mixtral, &mixtral_code}, std::pair{&qwen2_moe, &qwen2_moe_code},
                                        std::pair{&qwen3_moe, &qwen3_moe_code}, std::pair{&olmoe, &olmoe_code},
                                        std::pair{&gpt2, &gpt2_code}};
  if (architecture.code) return *architecture.code;
  for (const auto& [record, code] : kCodes)
    if (record->name == architecture.name) return *code;
  throw ContractError("an architecture of Plait has its code in model/architectures");
}

}  // namespace plait
