// The matrix products of one training step on one rank, and nothing else: what the step would cost if all the rest were
// free. Shapes, layouts and rows per expert are those of the step; each product runs with whichever of this program's
// own kernels and ATen's is faster here.
#pragma once
#include <functional>
#include <map>

#include "run/executor.h"

namespace plait {

class StepProducts {
 public:
  // Of a step that `executor` has run; `tables` of its ragged products must have been kept.
  StepProducts(const Executor& executor, RankContext context);

  // Times each product both ways, `tries` times each; the faster one is run from then on.
  void choose(int tries);
  void run() const;

  double flops() const;   // multiplications and additions of one run
  double of_own() const;  // share of the flops that the own kernels do

 private:
  struct Product {
    double flops;
    int times;  // once a micro-batch
    std::function<void()> own, aten;
    bool with_aten = false;
  };

  void add_product(const Step& step, const StepTypes& types, const Executor& executor);
  void add_attention(const Type& q, const Type& k, const StepTypes& types, int passes);
  at::Tensor memory(at::IntArrayRef shape, const char* place);

  at::ScalarType dtype_;
  int times_ = 1;
  std::vector<Product> products_;
  std::map<std::pair<std::string, int64_t>, at::Tensor> memory_;
};

// The tables that ragged products read: to be kept by the executor.
std::vector<ValueId> product_tables(const Schedule& schedule);

}  // namespace plait
