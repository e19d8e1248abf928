#include "base/errors.h"
#include "run/kernels.h"

namespace plait {

Kernel prepare_kernel(const Op& op, const StepTypes& types) {
  return std::visit(
      [&]<class T>(const T& o) -> Kernel {
        if constexpr (std::is_same_v<T, Move>)
          throw ContractError("a move is not a kernel");
        else
          return prepare(o, types);
      },
      op);
}

}  // namespace plait
