#include "base/errors.h"
#include "run/external.h"
#include "run/kernels.h"
#include "schedule/external.h"

namespace plait {

Kernel prepare(const External& op, const StepTypes& types) {
  const ExternalKernel* kernel = op.record->kernel;
  expects(kernel, fmt::format("{} has no kernel: its record must name one", *op.record->name));
  return kernel->prepare(op, types);
}

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
