#include "bench/ted_memory.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {

TedModel ted_model(int64_t layers, int64_t width, int experts) {
  return {.base = 12.0 * static_cast<double>(layers) * static_cast<double>(width * width), .experts = experts};
}

double state_bytes(const TedModel& model, const TedRanks& ranks, const StateBytes& each) {
  expects(ranks.ranks % ranks.tp == 0 && ranks.dp() % ranks.ep == 0, "state_bytes: tp and ep divide the ranks");
  const double used = model.non_expert() / ranks.tp + model.expert() / (ranks.tp * ranks.ep);
  const double cut = model.non_expert() / ranks.ranks + model.expert() / ranks.ranks;
  return each.whole * used + each.sharded * cut;
}

double largest_base(double memory, const TedRanks& ranks, int experts, const StateBytes& each) {
  return memory / state_bytes({.base = 1, .experts = experts}, ranks, each);
}

double largest_base(double memory, int tp, const StateBytes& each) { return memory * tp / each.whole; }

double optimizer_spike(const TedModel& model, const TedRanks& ranks, int64_t tile) {
  const double shard = model.expert() / ranks.ranks;
  return 4 * (tile > 0 ? std::min(shard, static_cast<double>(tile)) : shard);
}

}  // namespace plait
