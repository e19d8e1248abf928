// All tests of this program run in guarded memory: each kernel of a gate is called on tensors that end at a page
// without access or begin behind one.
#include "kernels/testing/guarded.h"

namespace plait {
namespace {

[[maybe_unused]] const bool kGuarded = guard_memory();

}  // namespace
}  // namespace plait
