// How the plain loops of the tests compute an op from outside.
#pragma once
#include "schedule/external.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {

struct ExternalLoop {
  Fact<void (*)(const Call&, const External&)> compute;
};

}  // namespace plait::oracle
