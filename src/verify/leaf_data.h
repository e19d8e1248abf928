// What the leaves of a list are fed where nobody says more: random numbers of the seed and the leaf's name, the same on
// any number of ranks.
//   real: normal. A parameter of several dims by 1 / sqrt(its last one). State is 0, a scalar is 1.
//   int, by what reads it: an embedding's ids and a loss's targets below their vocabulary, a mask 1 everywhere, a key
//   of random draws 1.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>

#include "schedule/schedule.h"

namespace plait {

class LeafData {
 public:
  // InputError for a leaf of which nothing says what it may hold.
  LeafData(const Schedule& schedule, uint64_t seed);

  // The global array of a leaf for a micro-batch, float64 or int64. Parameters and state: micro 0.
  at::Tensor whole(const std::string& leaf, int micro = 0) const;

 private:
  struct Integers {
    int64_t first = 0, end = int64_t{1} << 30;  // [first, end)
  };
  Integers integers_of(const Types& types, const Leaf& leaf) const;
  void expect_real_readers(const Types& types, const Leaf& leaf) const;
  // What a step takes integers for; nothing where it takes none.
  std::optional<Integers> taken(const Types& types, const Step& step, size_t operand) const;

  double deviation(const Leaf& leaf) const;

  const Schedule& schedule_;
  uint64_t seed_;
  std::map<ValueId, Integers> integers_;  // by leaf
};

}  // namespace plait
