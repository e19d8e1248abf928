#include "verify/verify_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"

namespace plait {
namespace {

struct Layout {
  int64_t ranks, tp, esp, ep;
};
constexpr Layout kLayouts[] = {{4, 2, 2, 2}, {8, 2, 2, 2}, {8, 2, 4, 2}, {8, 4, 2, 4},  {4, 1, 2, 2},
                               {4, 2, 1, 4}, {8, 2, 2, 4}, {8, 4, 4, 2}, {16, 4, 2, 4}, {16, 2, 4, 2}};

// What the layout decides is left open, to be filled again.
Config at_layout(Config c, const VerifyCase& v) {
  c.schedule.moe = v.family;
  if (!v.family->can_fuse()) c.schedule.fuse = Fusing::by_family;
  c.mesh = {.tp = v.tp, .ep = v.ep, .esp = v.esp, .dp = v.dp, .threads = 1};
  c.train.micro_batch_size = 0;
  const double enough = static_cast<double>(c.moe.num_experts) / static_cast<double>(c.moe.num_experts_per_tok);
  if (!v.padded) {
    c.moe.capacity.reset();
  } else if (v.family->copies() && v.tp > 1) {
    c.moe.capacity = std::max(c.moe.capacity.value_or(0), enough);
  } else {
    c.moe.capacity = c.moe.capacity.value_or(1);
  }
  return c;
}

}  // namespace

std::string VerifyCase::text() const {
  return fmt::format("{} on {} ranks (tp {}, dp {}; esp {}, ep {}), {}", family->name, tp * dp, tp, dp, esp, ep,
                     padded ? "padded" : "dropless");
}

std::vector<VerifyCase> verify_matrix(const Config& config) {
  std::vector<VerifyCase> cases;
  for (const FamilySpec* family : usual_last(*config.catalogue))
    for (const Layout& l : kLayouts)
      for (bool padded : {false, true}) {
        VerifyCase v{family, l.tp, l.esp, l.ep, l.ranks / l.tp, padded, {}, {}};
        try {
          v.config = resolve(at_layout(config, v));
          validate(v.config);
        } catch (const InputError& e) {
          v.refusal = e.what();
        }
        cases.push_back(std::move(v));
      }
  return cases;
}

}  // namespace plait
