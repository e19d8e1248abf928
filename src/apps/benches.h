// The measurements of `plait bench`, one file each; see apps.h for what such a function does.
#pragma once
#include "apps/apps.h"
#include "bench/bench_config.h"

namespace plait {

int bench_layer(Arguments arguments);
int bench_grid(Arguments arguments);
int bench_overlap(Arguments arguments);
int bench_collectives(Arguments arguments);
int bench_memory(Arguments arguments);
int bench_optimizer(Arguments arguments);

}  // namespace plait
