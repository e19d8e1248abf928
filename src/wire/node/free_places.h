// Which parts of a range of bytes are free. The first that is large enough is taken, so what has been used is used
// again; parts that touch are one part.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

namespace plait::wire {

class FreePlaces {
 public:
  explicit FreePlaces(int64_t bytes);

  // Where so many bytes begin; nothing where no free part is as large. REQUIRES bytes > 0.
  std::optional<int64_t> take(int64_t bytes);
  // REQUIRES what `take` gave, once.
  void give_back(int64_t start, int64_t bytes);

  // Of all parts together.
  int64_t bytes() const;
  int parts() const { return static_cast<int>(size_.size()); }

 private:
  std::map<int64_t, int64_t> size_;  // by start
};

}  // namespace plait::wire
