#include "run/buffers.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace plait {
namespace {

// Sizes are rounded up to 1/8 of their power of two, so that ragged steps of nearly the same size share memory.
int64_t rounded(int64_t bytes) {
  int64_t power = 512;
  while (power < bytes) power *= 2;
  const int64_t grain = std::max<int64_t>(power / 16, 64);
  return (std::max<int64_t>(bytes, 64) + grain - 1) / grain * grain;
}

}  // namespace

BufferBlock::~BufferBlock() { owner_->give_back(std::move(bytes_), asked_); }

void BufferBlock::retag(MemoryTag tag) {
  owner_->retag(asked_, tag);
  asked_.tag = tag;
}

BlockPtr Buffers::take(int64_t bytes, MemoryTag tag) {
  const int64_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  at::Tensor memory;
  if (auto it = free_.lower_bound(size); it != free_.end() && it->first <= size + size / 4) {
    memory = std::move(it->second);
    free_.erase(it);
  } else {
    memory = fresh_(size);
    reserved_ += size;
  }
  in_use_ += memory.numel();
  peak_ = std::max(peak_, in_use_);
  asked_.at(tag) += bytes;
  if (asked_.total() > asked_at_peak_.total()) asked_at_peak_ = asked_;
  return std::make_shared<BufferBlock>(shared_from_this(), std::move(memory), BufferBlock::Asked{bytes, tag});
}

void Buffers::retag(const BufferBlock::Asked& asked, MemoryTag tag) {
  const std::lock_guard lock(mutex_);
  asked_.at(asked.tag) -= asked.bytes;
  asked_.at(tag) += asked.bytes;
}

void Buffers::give_back(at::Tensor bytes, const BufferBlock::Asked& asked) {
  const std::lock_guard lock(mutex_);
  asked_.at(asked.tag) -= asked.bytes;
  in_use_ -= bytes.numel();
  const int64_t size = bytes.numel();
  free_.emplace(size, std::move(bytes));
}

at::Tensor view_of(const BlockPtr& block, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::from_blob(block->data(), shape, at::TensorOptions().dtype(dtype));
}

}  // namespace plait
