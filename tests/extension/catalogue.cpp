#include "extension/extension.h"

namespace plait::extension {

const Catalogue& catalogue() {
  static const Catalogue all = [] {
    Catalogue c = built_in();
    c.families.push_back(&gather_first);
    c.gates.push_back(&softplus);
    c.ops = {&softcap, &softcap_grad};
    c.architectures.push_back(&adapters);
    return c;
  }();
  return all;
}

}  // namespace plait::extension
