#include "config/catalogue.h"

#include "gates/all/record.h"

namespace plait {

const Catalogue& built_in() {
  static const Catalogue all{.gates = built_in_gates()};
  return all;
}

}  // namespace plait
