#include "schedule/testing/external.h"

#include "base/errors.h"

namespace plait::oracle {

void compute(const Call& c, const External& op) {
  const ExternalLoop* loop = op.record->loop;
  expects(loop, fmt::format("{} has no plain loop: its record must name one", *op.record->name));
  loop->compute(c, op);
}

}  // namespace plait::oracle
