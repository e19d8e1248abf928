#include "run/call.h"

#include "base/errors.h"

namespace plait {

Value Call::allocate(at::IntArrayRef shape, at::ScalarType dtype) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (int64_t n : shape) bytes *= n;
  BlockPtr block = buffers_->take(bytes);
  at::Tensor tensor = view_of(block, shape, dtype);
  return {std::move(tensor), std::move(block)};
}

at::Tensor Call::make(size_t i, at::IntArrayRef shape, at::ScalarType dtype) {
  *out_[i] = allocate(shape, dtype);
  return out_[i]->tensor;
}

void Call::alias(size_t i, size_t of, at::Tensor view) { *out_[i] = {std::move(view), in_[of]->block}; }

at::Tensor Call::take_over(size_t i, size_t of) {
  Value& from = *in_[of];
  if (ends(of)) {
    *out_[i] = from;
    return from.tensor;
  }
  at::Tensor copy = make(i, from.tensor.sizes(), from.tensor.scalar_type());
  copy.copy_(from.tensor);
  return copy;
}

at::Tensor Call::make_over(size_t i, size_t of) {
  const Value& from = *in_[of];
  if (!ends(of)) return make(i, from.tensor.sizes(), from.tensor.scalar_type());
  *out_[i] = from;
  return from.tensor;
}

at::Tensor Call::scratch(at::IntArrayRef shape, at::ScalarType dtype) {
  Value v = allocate(shape, dtype);
  scratch_.push_back(v.block);
  return v.tensor;
}

}  // namespace plait
