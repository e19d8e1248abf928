// Parm's first schedule.
#include "families/all.h"
#include "families/family.h"

namespace plait::families {

constinit const FamilySpec s1 = {
    .name = "s1",
    .help =
        "tokens are sliced over tp before the gate and joined after; one message carries rows to the experts and their "
        "shares",
    .at_gate = FamilySpec::AtGate::part,
    .fuses = FamilySpec::Fuses::usually,
    .way_out = gathered,
    .preference = 1};

}  // namespace plait::families
