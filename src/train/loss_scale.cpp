#include "train/loss_scale.h"

#include <algorithm>
#include <cmath>

namespace plait {

LossScale::LossScale(const LossScaleRule& rule)
    : rule_(rule), value_(std::ldexp(1.0, rule.initial_power)), left_(rule.hysteresis) {}

void LossScale::update(Step step) {
  if (step == Step::skipped) {
    ++skipped_;
    good_ = 0;
    if (left_ > 1)
      --left_;
    else
      value_ = std::max(value_ / 2, rule_.lowest);
    return;
  }
  if (++good_ < rule_.window) return;
  good_ = 0;
  left_ = rule_.hysteresis;
  value_ *= 2;
}

void LossScale::save(JsonLine& state) const {
  state.add("loss_scale", value_).add("loss_scale_good", good_).add("loss_scale_left", left_);
  state.add("skipped_steps", skipped_);
}

void LossScale::load(const JsonObject& state) {
  *this = LossScale(rule_);
  if (!state.has("loss_scale")) return;
  value_ = state.number("loss_scale");
  good_ = state.integer("loss_scale_good");
  left_ = state.integer("loss_scale_left");
  skipped_ = state.integer("skipped_steps");
}

}  // namespace plait
