// What a program of one's own adds to Plait, each in a file of this folder: a family, a gate, an op with its gradient
// and an architecture that uses it.
#pragma once
#include "config/architecture.h"
#include "config/catalogue.h"
#include "families/family.h"
#include "gates/spec.h"
#include "schedule/external.h"

namespace plait::extension {

extern const FamilySpec gather_first;
extern const RouteSpec softplus_route;
extern const GateSpec softplus;
extern const ExternalOp softcap, softcap_grad;
extern const Architecture adapters;

// All of these and Plait's own.
const Catalogue& catalogue();

}  // namespace plait::extension
