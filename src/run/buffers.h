// Memory of one rank that is handed out, given back and handed out again: fresh memory costs a page fault every 4 KiB,
// reused memory nothing. Shared by the lanes of a rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "plan/memory.h"

namespace plait {

class Buffers;

// A piece of memory; the last owner's end gives it back. Views of one value share their block.
class BufferBlock {
 public:
  struct Asked {
    int64_t bytes = 0;
    MemoryTag tag;
  };
  BufferBlock(std::shared_ptr<Buffers> owner, at::Tensor bytes, Asked asked)
      : owner_(std::move(owner)), bytes_(std::move(bytes)), asked_(asked) {}
  ~BufferBlock();
  BufferBlock(const BufferBlock&) = delete;
  BufferBlock& operator=(const BufferBlock&) = delete;
  void* data() const { return bytes_.data_ptr(); }
  // It is counted as something else from now on.
  void retag(MemoryTag tag);

 private:
  std::shared_ptr<Buffers> owner_;
  at::Tensor bytes_;
  Asked asked_;
};
using BlockPtr = std::shared_ptr<BufferBlock>;

class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  // fresh(bytes): memory that no buffer has used yet, aligned to 64.
  using Source = std::function<at::Tensor(int64_t bytes)>;
  explicit Buffers(Source fresh) : fresh_(std::move(fresh)) {}

  // At least `bytes`, aligned to 64; contents are whatever was there.
  BlockPtr take(int64_t bytes, MemoryTag tag);

  int64_t reserved() const { return locked(reserved_); }  // bytes ever taken from the system
  int64_t in_use() const { return locked(in_use_); }      // of blocks, which may be larger than what was asked for
  int64_t peak() const { return locked(peak_); }          // greatest in_use
  // The bytes asked for, by class, when these were most.
  MemoryUse asked_at_peak() const { return locked(asked_at_peak_); }

 private:
  friend class BufferBlock;
  void give_back(at::Tensor bytes, const BufferBlock::Asked& asked);
  void retag(const BufferBlock::Asked& asked, MemoryTag tag);

  template <class T>
  T locked(const T& what) const {
    const std::lock_guard lock(mutex_);
    return what;
  }

  Source fresh_;
  mutable std::mutex mutex_;
  std::multimap<int64_t, at::Tensor> free_;
  int64_t reserved_ = 0, in_use_ = 0, peak_ = 0;
  MemoryUse asked_, asked_at_peak_;
};

at::Tensor view_of(const BlockPtr& block, at::IntArrayRef shape, at::ScalarType dtype);

}  // namespace plait
