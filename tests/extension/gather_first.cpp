// A family: rows are gathered over esp before they are exchanged over ep.
#include "extension/extension.h"
#include "families/family.h"

namespace plait::extension {
namespace {

std::vector<Legs> way_out(const Leaving& from) {
  return {gather_legs(from.esp, from.own), exchange_legs(from.far, from.own, "E"),
          exchange_legs(from.ep, from.own, "E")};
}

}  // namespace

extern const FamilySpec gather_first = {.name = "gather_first",
                                        .help = "rows are gathered over esp before they are exchanged over ep",
                                        .at_gate = FamilySpec::AtGate::part,
                                        .way_out = way_out};

}  // namespace plait::extension
