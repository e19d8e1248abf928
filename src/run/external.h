// How ranks compute an op from outside.
#pragma once
#include "run/call.h"

namespace plait {

struct ExternalKernel {
  Fact<Kernel (*)(const External&, const StepTypes&)> prepare;
};

}  // namespace plait
