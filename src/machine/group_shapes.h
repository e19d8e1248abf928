// The groups in which ranks may meet, whatever the layout: a mesh is a chain of divisors of the number of ranks, so a
// group is a box of digits of some such chain. What `plait bench collectives` measures.
#pragma once
#include "machine/machine.h"

namespace plait {

int num_ranks(const Digits& digits);  // of one group

// "4" where the ranks are neighbours, "2 every 4" two ranks four apart, "2 x 2 every 4" both at once.
std::string text(const Digits& digits);

// All groups of two and more, smallest first. A chain of prime factors has all of them, in each order of the factors.
std::vector<Digits> group_shapes(int ranks);

// The group of `rank` among all parallel groups of this shape, in the order of the ranks.
std::vector<int> members(const Digits& digits, int rank);

// Whether some group of this shape has ranks of several nodes. REQUIRES per_node >= 1, which divides `ranks`.
enum class Reach { within_nodes, across_nodes };
Reach reach(const Digits& digits, int ranks, int per_node);

// Two groups that a rank may be in at once, without a common digit: the first reaches across nodes, the second stays
// within one.
struct ShapePair {
  Digits across, within;
};
std::vector<ShapePair> shape_pairs(int ranks, int per_node);

}  // namespace plait
