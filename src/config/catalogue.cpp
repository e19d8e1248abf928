#include "config/catalogue.h"

namespace plait {

const Catalogue& built_in() {
  static const Catalogue all;
  return all;
}

}  // namespace plait
