// One MoE layer, forward and backward, beside its matrix products alone and beside a plain layer in ATen, in turns:
// what the schedule and its kernels cost and what they bring.
#pragma once
#include <functional>

#include "config/config.h"
#include "run/profile.h"

namespace plait {

// What a step of the layer does; by it the time is summed.
enum class Work { products, activation, gate, rows, messages };
std::string_view name(Work work);

struct WorkTime {
  Work work;
  double ms = 0, cpu_ms = 0;  // as in KindTime
};

struct LayerBench {
  int64_t ranks = 1;
  double tokens = 0;                                   // of the world
  double routes = 0, dropped = 0, padded = 0;          // of the world: chosen, of those dropped, slots that stay empty
  double layer_ms = 0, products_ms = 0, plain_ms = 0;  // the fastest of the repeats
  double layer_median_ms = 0, products_median_ms = 0, plain_median_ms = 0;
  double layer_cpu_ms = 0, products_cpu_ms = 0;  // least processor time of rank 0's own thread
  double product_flops = 0;                      // of all ranks
  double difference = 0;                         // the greatest from the plain layer, of the output and every gradient
  // Of the rank that takes most: memory ever taken for values, most of it in use, and what the list keeps alive at
  // once.
  double taken_bytes = 0, peak_bytes = 0, live_bytes = 0;
  std::vector<WorkTime> work;
  std::vector<KindTime> kinds, steps;  // longest first

  double products_share() const { return products_ms / layer_ms; }
  double share(Work what) const;  // of the layer's time
};

struct LayerTurns {
  int64_t repeats = 5;
  std::function<void()> between = {};  // in each turn, while all ranks wait
};

// `config` has one layer, with experts; every rank of it runs, on random tokens. With several ranks the plain layer
// runs on each rank with its share of the tokens and all experts, and sends nothing. Throws ContractError where the
// layer and the plain one differ. REQUIRES repeats >= 1.
LayerBench bench_layer(const Config& config, const LayerTurns& turns);

}  // namespace plait
