// A group that counts what passes through it: calls and bytes by kind of collective. For tests of what a schedule sends
// and for the accounting of a step.
#pragma once
#include <array>
#include <functional>
#include <memory>

#include "wire/group.h"

namespace plait::wire {

// One rank's messages. Bytes are what the rank sends by the ring and pairwise algorithms, n members, m the larger side:
// all_reduce 2m(n-1)/n; all_gather, reduce_scatter and broadcast m(n-1)/n; all_to_all the rows that leave for others.
struct Traffic {
  struct Count {
    int64_t calls = 0;
    double bytes = 0;
  };

  std::array<Count, kNumCollectives> kinds;

  Count& operator[](Collective kind) { return kinds[static_cast<int>(kind)]; }
  const Count& operator[](Collective kind) const { return kinds[static_cast<int>(kind)]; }
  Count total() const;
};

// Tells of each collective once it is done, in the member's own thread: its kind and the bytes this rank sent.
using Watch = std::function<void(Collective kind, double bytes)>;
std::shared_ptr<Group> watched(std::shared_ptr<Group> group, Watch watch);

// Counts into `traffic`, from the member's own thread, and passes everything on. A group of one is given back as it is:
// it sends nothing.
std::shared_ptr<Group> record(std::shared_ptr<Group> group, std::shared_ptr<Traffic> traffic);

}  // namespace plait::wire
