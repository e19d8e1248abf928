// DeepSpeed-TED.
#include "families/all.h"
#include "families/family.h"

namespace plait::families {

constinit const FamilySpec ted = {
    .name = "ted",
    .help = "every tp rank gates and sends all tokens of its data rank (DeepSpeed-TED); needs esp = tp",
    .esp_is_tp = true,
    .way_out = exchanged_and_entered,
    .preference = 4};

}  // namespace plait::families
