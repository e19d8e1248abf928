// Schedules as text that are no longer what they were: for tests of what reads them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/op.h"

namespace plait::oracle {

class TextDice {
 public:
  explicit TextDice(uint64_t seed) : state_(seed) {}
  size_t below(size_t n);
  template <class T>
  const T& pick(const std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  uint64_t state_;
};

// Cuts, doubles, swaps or replaces a word or a character.
std::string edited(const std::string& text, TextDice& dice);

// Every op several times, its fields not what they are at first, its choices each once. For a mesh of two atoms.
std::vector<Op> filled_ops();

}  // namespace plait::oracle
