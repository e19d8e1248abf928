// What nearly every file of ops to apps includes anyway, parsed once: 3 of the 4 seconds that such a file would take.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "plain.h"
