// Memory of a process that the other processes of its node read and write too. It is a file in memory that has no name:
// large in addresses, and a page of it costs nothing before it is touched. What a process takes from it a collective
// within the node reads and writes where it lies.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>

#include "wire/node/free_places.h"

namespace plait::wire {

// Addresses of this process; given back at the end.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int file, int64_t bytes);  // empty where the system refuses
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  std::byte* memory() const { return memory_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_ = nullptr;  // null: empty
  int64_t bytes_ = 0;
};

class NodeMemory : public std::enable_shared_from_this<NodeMemory> {
 public:
  // By what another process finds it.
  struct Address {
    int64_t process = 0, file = -1;
    int64_t device = 0, inode = 0;  // of that file: a number may mean another file there
    int64_t bytes = 0;
  };

  // Null where the system refuses.
  static std::shared_ptr<NodeMemory> make(int64_t bytes);
  // What suits one of so many ranks on this machine: far more than it will use.
  static int64_t generous_bytes(int ranks);
  // Another process's memory; empty where the system refuses.
  static Mapping reach(const Address& address);

  NodeMemory(int file, Mapping mapping);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  Address address() const;
  std::byte* memory() const { return mapping_.memory(); }

  // So many bytes, aligned to 64, which keep all of it alive; from elsewhere when there are not as many left. Any
  // thread.
  at::Tensor take(int64_t bytes);
  // Where a tensor begins here; nothing where it lies elsewhere. A tensor of no bytes lies anywhere.
  std::optional<int64_t> place(const at::Tensor& tensor) const;

 private:
  void give_back(int64_t start, int64_t bytes);

  int file_;
  Mapping mapping_;
  std::mutex mutex_;  // over places_
  FreePlaces places_;
};

}  // namespace plait::wire
