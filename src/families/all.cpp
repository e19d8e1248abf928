#include "families/all.h"

namespace plait::families {

const std::vector<const FamilySpec*>& all() {
  static const std::vector<const FamilySpec*> list = {&sharded, &ted, &dtd, &s1, &s2, &parm};
  return list;
}

}  // namespace plait::families
