// Sequence parallelism between blocks (Megatron-LM), which the gate and the dispatch keep.
#include "families/all.h"
#include "families/family.h"

namespace plait::families {

constinit const FamilySpec sharded = {
    .name = "sharded",
    .help = "tokens are split over tp between blocks: each rank gates and sends its own part",
    .between = FamilySpec::Between::cut,
    .at_gate = FamilySpec::AtGate::part,
    .fuses = FamilySpec::Fuses::if_asked,
    .way_out = gathered,
    .preference = 0};

}  // namespace plait::families
