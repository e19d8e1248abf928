// One step as a kernel sees it: operands, the types behind them, and memory for results.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/optimizer.h"
#include "run/buffers.h"
#include "schedule/storage.h"

namespace plait {

// What a rank holds of a value: a contiguous tensor. Rows ([E, g.., C, ..] with a jagged C) are one tensor [R, ..].
struct Value {
  at::Tensor tensor;
  BlockPtr block;  // null: persistent (bound leaves)
};

// float32 for types of 2 bytes, else the type itself.
at::ScalarType full_precision(at::ScalarType real);

// Known when a schedule is prepared for a rank.
struct StepTypes {
  const Mesh& mesh;
  int rank;
  std::vector<const Type*> in, out;
  at::ScalarType dtype;  // of `real` values
  int64_t tile = kernels::kTile;

  // What a value of this type is made of. Full precision: float32 where the run's type has 2 bytes, else that type.
  // Wide: float64.
  at::ScalarType scalar(const Type& type) const;
  std::vector<int64_t> shape(const Type& type) const { return local_shape(mesh, type); }
  Range range(const Type& type, std::string_view dim) const { return local_range(mesh, *type.find(dim), rank); }
};

// Where the results of a step may lie, which operands end at it, and what its memory is counted as.
struct StepMemory {
  std::vector<Sharing> sharing;
  std::vector<bool> dies;       // by operand: no later reader
  std::vector<MemoryTag> tags;  // by result
  MemoryTag scratch;
};

class Call {
 public:
  Call(std::span<Value* const> in, std::span<Value* const> out, const StepMemory& memory,
       std::shared_ptr<Buffers> buffers)
      : in_(in), out_(out), memory_(memory), buffers_(std::move(buffers)) {}

  size_t num_in() const { return in_.size(); }
  const at::Tensor& in(size_t i) const { return in_[i]->tensor; }

  // Memory for result i.
  at::Tensor make(size_t i, at::IntArrayRef shape, at::ScalarType dtype);
  // Result i is a view of operand `of`. What follows REQUIRES that `sharing` says so.
  void alias(size_t i, size_t of, at::Tensor view);
  // Result i in the memory of operand `of`, with its contents: without a copy when nobody reads the operand afterwards.
  at::Tensor take_over(size_t i, size_t of);
  // Nobody reads operand `of` afterwards, and nobody shares its memory.
  bool ends(size_t of) const { return memory_.dies[of] && in_[of]->block && in_[of]->block.use_count() == 1; }
  // Memory for result i, shaped like operand `of`: that operand's own where it ends here. For kernels that read an
  // element before they write it.
  at::Tensor make_over(size_t i, size_t of);
  // Memory until the kernel returns.
  at::Tensor scratch(at::IntArrayRef shape, at::ScalarType dtype);

 private:
  Value allocate(at::IntArrayRef shape, at::ScalarType dtype, MemoryTag tag);
  void expect_sharing(Sharing::How how, size_t out, size_t in) const;
  at::Tensor move_in(size_t i, size_t of);

  std::span<Value*const> in_, out_;
  const StepMemory& memory_;
  std::shared_ptr<Buffers> buffers_;
  std::vector<BlockPtr> scratch_;
};

using Kernel = std::function<void(Call&)>;

// The kernel of an op that computes, prepared once: layouts, offsets and shapes are worked out here.
Kernel prepare_kernel(const Op& op, const StepTypes& types);

}  // namespace plait
