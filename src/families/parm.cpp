// The baseline that Parm measures its schedules against.
#include "families/all.h"
#include "families/family.h"

namespace plait::families {

constinit const FamilySpec parm = {
    .name = "parm",
    .help = "copies of a token on tp ranks count as distinct tokens: the baseline of Parm, with the work of all copies",
    .at_gate = FamilySpec::AtGate::copies,
    .way_out = exchanged_and_entered,
    .preference = 5};

}  // namespace plait::families
