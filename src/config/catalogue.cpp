#include "config/catalogue.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/errors.h"
#include "config/architecture.h"
#include "families/all.h"
#include "families/family.h"
#include "gates/all/record.h"
#include "schedule/external.h"

namespace plait {
namespace {

// `taken`: words of the same key that name no record.
template <class Spec>
void check_names(std::string_view what, const std::vector<const Spec*>& list, std::set<std::string_view> taken = {}) {
  for (const Spec* spec : list)
    if (!taken.insert(spec->name).second)
      input_error("catalogue: the name \"{}\" of {} is taken; give each its own", spec->name, what);
}

}  // namespace

const Catalogue& built_in() {
  static const Catalogue all{
      .families = families::all(), .gates = built_in_gates(), .architectures = architectures::all()};
  return all;
}

std::vector<const FamilySpec*> usual_last(const Catalogue& catalogue) {
  std::vector<const FamilySpec*> families = catalogue.families;
  std::ranges::rotate(families, families.begin() + 1);
  return families;
}

namespace {

void check_architectures(const std::vector<const Architecture*>& all) {
  if (all.empty()) input_error("catalogue: it has no architecture; start from built_in()");
  check_names("an architecture", all);
  for (const Architecture* one : all) {
    if (!one->check) input_error("catalogue: the architecture \"{}\" has no check", one->name);
    if (!one->code && std::ranges::find(architectures::all(), one) == architectures::all().end())
      input_error("catalogue: the architecture \"{}\" has no code", one->name);
  }
}

}  // namespace

void check_catalogue(const Catalogue& c) {
  check_architectures(c.architectures);
  if (c.gates.empty()) input_error("catalogue: it has no gate; start from built_in()");
  check_names("a gate", c.gates);
  expect_own_names(c.ops);
  if (c.families.empty()) input_error("catalogue: it has no family of MoE schedules; start from built_in()");
  check_names("a family", c.families, {"auto"});
  for (const FamilySpec* family : c.families) {
    if (!family->way_out) input_error("catalogue: the family \"{}\" has no way_out", family->name);
    if (family->cut_between() && family->at_gate != FamilySpec::AtGate::part)
      input_error(
          "catalogue: the family \"{}\" cuts tokens between blocks: set at_gate = part, as its gate gets them so",
          family->name);
  }
}

}  // namespace plait
