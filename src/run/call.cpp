#include "run/call.h"

#include <algorithm>

#include "base/errors.h"

namespace plait {

at::ScalarType full_precision(at::ScalarType real) { return c10::elementSize(real) == 2 ? at::kFloat : real; }

at::ScalarType StepTypes::scalar(const Type& type) const {
  switch (type.dtype) {
    case Dtype::real: return dtype;
    case Dtype::full: return full_precision(dtype);
    case Dtype::integer: return at::kLong;
    case Dtype::wide: return at::kDouble;
  }
  return dtype;
}

Value Call::allocate(at::IntArrayRef shape, at::ScalarType dtype, MemoryTag tag) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (int64_t n : shape) bytes *= n;
  BlockPtr block = buffers_->take(bytes, tag);
  at::Tensor tensor = view_of(block, shape, dtype);
  return {std::move(tensor), std::move(block)};
}

at::Tensor Call::make(size_t i, at::IntArrayRef shape, at::ScalarType dtype) {
  *out_[i] = {};  // what the last run left there is memory for this one
  *out_[i] = allocate(shape, dtype, memory_.tags[i]);
  return out_[i]->tensor;
}

void Call::expect_sharing(Sharing::How how, size_t out, size_t in) const {
  const Sharing share{how, static_cast<int>(out), static_cast<int>(in)};
  expects(std::ranges::find(memory_.sharing, share) != memory_.sharing.end(),
          "a result lies where schedule/storage.h does not say it may");
}

void Call::alias(size_t i, size_t of, at::Tensor view) {
  expect_sharing(Sharing::How::view, i, of);
  *out_[i] = {std::move(view), in_[of]->block};
}

at::Tensor Call::move_in(size_t i, size_t of) {
  *out_[i] = *in_[of];
  out_[i]->block->retag(memory_.tags[i]);
  return out_[i]->tensor;
}

at::Tensor Call::take_over(size_t i, size_t of) {
  expect_sharing(Sharing::How::over, i, of);
  if (ends(of)) return move_in(i, of);
  const at::Tensor from = in(of), copy = make(i, from.sizes(), from.scalar_type());
  copy.copy_(from);
  return copy;
}

at::Tensor Call::make_over(size_t i, size_t of) {
  expect_sharing(Sharing::How::over, i, of);
  if (ends(of)) return move_in(i, of);
  return make(i, in(of).sizes(), in(of).scalar_type());
}

at::Tensor Call::scratch(at::IntArrayRef shape, at::ScalarType dtype) {
  Value v = allocate(shape, dtype, memory_.scratch);
  scratch_.push_back(v.block);
  return v.tensor;
}

}  // namespace plait
