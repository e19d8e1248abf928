// What this program is made of.
#pragma once
#include <string>
#include <string_view>

namespace plait {

extern const std::string_view kVersion, kCommit;  // the commit that was checked out when it was built; "" if unknown

// Several lines: version and commit, LibTorch, MPI, and the instruction sets that it was built for.
std::string version_text();

}  // namespace plait
