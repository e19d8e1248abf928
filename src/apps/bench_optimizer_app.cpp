// `plait bench optimizer`: the AdamW step beside the memory bandwidth of the machine.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "apps/room_here.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/table.h"
#include "bench/machine_speed.h"
#include "kernels/cpu/optimizer.h"

namespace plait {
namespace {

// Bytes a second of x += y over arrays of `size` floats, the kind of traffic that an update makes.
double memory_bandwidth(int64_t size) {
  const at::Tensor x = at::zeros({size}), y = at::zeros({size});
  float* to = x.mutable_data_ptr<float>();
  const float* from = y.const_data_ptr<float>();
  const double seconds = fastest([&] {
    at::parallel_for(0, size, 1 << 16, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    });
  });
  return 12.0 * static_cast<double>(size) / seconds;
}

struct Update {
  at::ScalarType gradient;
  int64_t tile;
  double seconds = 0, bytes = 0;  // bytes: read and written
};

void measure(Update& u, int64_t size) {
  const at::Tensor param = at::randn({size}), m = at::zeros({size}), v = at::zeros({size}),
                   grad = at::randn({size}).to(u.gradient), one = at::full({}, 1.0, at::kDouble);
  const kernels::AdamW args{.lr = 1e-3, .weight_decay = 0.1, .step = 1, .tile = u.tile};
  u.seconds = fastest([&] { kernels::adamw(args, one, param, grad, {m, v}); });
  u.bytes = static_cast<double>(size * (6 * 4 + grad.element_size()));
}

}  // namespace

int bench_optimizer(Arguments arguments) {
  int64_t size = 100'000'000;
  bool json = false;
  CommandLine line("bench optimizer", "The AdamW step beside the memory bandwidth of the machine");
  line.option("--parameters", size, "how many to update").flag("--json", json, "one line for programs");
  if (!line.parse(arguments)) return 0;
  take_cores_here();
  const double bandwidth = memory_bandwidth(size);
  std::vector<Update> updates = {{at::kFloat, kernels::kTile},
                                 {at::kBFloat16, kernels::kTile},
                                 {at::kHalf, kernels::kTile},
                                 {at::kBFloat16, 1'000'000},
                                 {at::kBFloat16, 1'000}};
  Table table({"gradient", "tile", "ms", "GB/s", "of the memory's"});
  for (Update& u : updates) {
    measure(u, size);
    table.row({at::toString(u.gradient), std::to_string(u.tile), fmt::format("{:.1f}", 1e3 * u.seconds),
               fmt::format("{:.1f}", u.bytes / u.seconds / 1e9),
               fmt::format("{:.0f}%", 100 * u.bytes / u.seconds / bandwidth)});
  }
  if (json) {
    const double speed = updates[0].bytes / updates[0].seconds;
    fmt::print("{}\n", JsonLine().add("gb_per_s", speed / 1e9).add("memory_gb_per_s", bandwidth / 1e9).str());
    return 0;
  }
  fmt::print("AdamW on {} parameters, {} threads; memory: {:.1f} GB/s (x += y)\n\n{}", size, at::get_num_threads(),
             bandwidth / 1e9, table.str());
  return 0;
}

}  // namespace plait
