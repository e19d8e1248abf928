// What the arithmetic units of this machine can do, measured in a fraction of a second.
#pragma once
#include <functional>

namespace plait {

// Seconds of the fastest of a few runs; the first also warms up.
double fastest(const std::function<void()>& work);

// work(0) .. work(threads - 1), each in a thread of its own.
void on_threads(int threads, const std::function<void(int)>& work);

// Multiplications and additions per second, float32, on values that never leave the registers.
double register_flops(int threads);

}  // namespace plait
