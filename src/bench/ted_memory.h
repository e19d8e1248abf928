// What the states of a model take by DeepSpeed-TED's own accounting, and what follows from it: the largest model that
// ranks of a size can hold, and the spike of an optimizer that is not tiled. Layers N, width H, FFN 4H, E experts in
// every second layer; esp = tp, ZeRO-1 over dp and edp. Bytes are decimal: 1 GB = 10^9.
#pragma once
#include <cstdint>

namespace plait {

struct TedModel {
  double base = 0;  // parameters of the dense model: 12 N H^2
  int experts = 1;

  double non_expert() const { return base * 2 / 3; }    // 8 N H^2
  double expert() const { return base * experts / 3; }  // 4 E N H^2
  double total() const { return non_expert() + expert(); }
};
TedModel ted_model(int64_t layers, int64_t width, int experts);  // without embeddings

// REQUIRES that tp divides the ranks, and ep what is left.
struct TedRanks {
  int ranks = 1, tp = 1, ep = 1;
  int dp() const { return ranks / tp; }
  int edp() const { return ranks / (tp * ep); }
};

// Bytes of a parameter: what every rank keeps of the parameters it computes with, and what is cut over dp or edp.
struct StateBytes {
  double whole = 4, sharded = 12;
};
inline constexpr StateBytes kTed = {4, 12};            // 2-byte parameter and gradient; master, two moments
inline constexpr StateBytes kWideSums = {6, 12};       // gradients summed in 4 bytes
inline constexpr StateBytes kScatteredSums = {2, 16};  // those scattered: each rank keeps the sums of its shard

double state_bytes(const TedModel& model, const TedRanks& ranks, const StateBytes& each = kTed);

// Parameters of the largest dense model with which the states of E experts fit into `memory` bytes of each rank.
double largest_base(double memory, const TedRanks& ranks, int experts, const StateBytes& each = kTed);
// Where that goes as ranks grow without end, with ep = E.
double largest_base(double memory, int tp, const StateBytes& each = kTed);

// Bytes of the 4-byte gradients that the update makes at once: of the experts' shard of a rank, of at most `tile`
// parameters. 0: not tiled.
inline constexpr int64_t kTile = 178'956'971;  // 1 GiB at 6 bytes a parameter
double optimizer_spike(const TedModel& model, const TedRanks& ranks, int64_t tile);

}  // namespace plait
