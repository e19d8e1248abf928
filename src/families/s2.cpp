// Parm's second schedule.
#include "families/all.h"
#include "families/family.h"

namespace plait::families {

constinit const FamilySpec s2 = {
    .name = "s2",
    .help = "every tp rank gates all tokens, then sends a slice of the rows in that one message",
    .cuts = FamilySpec::Cuts::sent,
    .fuses = FamilySpec::Fuses::usually,
    .way_out =
        [](const Leaving& from) {
          std::vector<Legs> way = gathered(from);
          if (from.cuts) way.insert(way.begin(), slice_legs(from.tp, from.own));
          return way;
        },
    .preference = 2};

}  // namespace plait::families
