// Memory whose neighbours cannot be touched, for the tests of kernels: what is allocated, tensors and all that kernels
// keep on the heap, ends at a page without access or begins behind one, in turns; the bytes on its other side are
// looked at when it is given back. Who reads or writes one beyond an end does not come far, without a sanitizer.
#pragma once

namespace plait {

// From now on, in this program; in one with a sanitizer, which sees more, nothing changes, and it gives false.
bool guard_memory();

}  // namespace plait
