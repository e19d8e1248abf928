// DeepSpeed-TED with its duplicate token dropping, as a rewrite of a list of ted.
#include "families/all.h"
#include "families/family.h"
#include "passes/rewrite.h"

namespace plait::families {

constinit const FamilySpec dtd = {
    .name = "dtd",
    .help = "`ted` without the duplicates: each tp rank sends a slice, which is joined on arrival; needs esp = tp",
    .cuts = FamilySpec::Cuts::joined,
    .esp_is_tp = true,
    .way_out = exchanged_and_entered,
    .rewrite = [](const Schedule& model) { return drop_duplicates(model, Axis::tp); },
    .preference = 3};

}  // namespace plait::families
