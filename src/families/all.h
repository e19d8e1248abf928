// The families of Plait. The first one is what a config gets that names none, and what "auto" must compute.
#pragma once
#include <vector>

namespace plait {

struct FamilySpec;

namespace families {

extern const FamilySpec sharded, ted, dtd, s1, s2, parm;

const std::vector<const FamilySpec*>& all();

}  // namespace families
}  // namespace plait
