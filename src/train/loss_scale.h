// The dynamic scale of a float16 run's loss: gradients too small for the type are lifted into its range. A step whose
// gradient is not finite is skipped; after `hysteresis` of them the scale halves, after `window` steps without one it
// doubles (Micikevicius et al. 2018; the hysteresis is Megatron's and DeepSpeed's).
#pragma once
#include <cstdint>

#include "base/json.h"

namespace plait {

struct LossScaleRule {
  int initial_power = 16;  // starts at 2 to this power
  int64_t window = 1000;
  int64_t hysteresis = 2;
  double lowest = 1;
};

class LossScale {
 public:
  enum class Step { made, skipped };

  explicit LossScale(const LossScaleRule& rule);

  double value() const { return value_; }
  int64_t skipped() const { return skipped_; }  // steps so far
  void update(Step step);

  // To and from a checkpoint's state. A state without a scale starts it anew.
  void save(JsonLine& state) const;
  void load(const JsonObject& state);

 private:
  LossScaleRule rule_;
  double value_;
  int64_t good_ = 0;  // steps since the last overflow or growth
  int64_t left_;      // overflows until the scale halves
  int64_t skipped_ = 0;
};

}  // namespace plait
