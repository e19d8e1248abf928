#include "wire/node/memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace plait::wire {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kLarge = int64_t{1} << 20;  // the pages of so large a part go back to the system

int64_t page_bytes() { return sysconf(_SC_PAGESIZE); }
int64_t rounded_up(int64_t bytes, int64_t grain) { return (bytes + grain - 1) / grain * grain; }

int64_t limit(auto what) {
  rlimit most = {};
  const bool none = getrlimit(what, &most) != 0 || most.rlim_cur == RLIM_INFINITY;
  return none ? INT64_MAX : static_cast<int64_t>(most.rlim_cur);
}

// Where the system promises no more than it has, a page that it cannot give is a failed call for a process's own
// memory, but the end of the process for a file's.
bool pages_are_promised() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  int rule = 0;
  return file >> rule && rule == 2;
}

}  // namespace

Mapping::Mapping(int file, int64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, bytes, MADV_DONTDUMP);  // a core file would have all its addresses
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

Mapping::~Mapping() {
  if (memory_) munmap(memory_, bytes_);
}

std::shared_ptr<NodeMemory> NodeMemory::make(int64_t bytes) {
  if (bytes <= 0 || pages_are_promised()) return nullptr;
  const int file = memfd_create("plait", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  Mapping mapping;
  if (ftruncate(file, bytes) == 0) mapping = Mapping(file, bytes);
  if (mapping.memory()) return std::make_shared<NodeMemory>(file, std::move(mapping));
  close(file);
  return nullptr;
}

int64_t NodeMemory::generous_bytes(int ranks) {
  const int64_t machine = 2 * page_bytes() * sysconf(_SC_PHYS_PAGES) / ranks;
  const int64_t file = limit(RLIMIT_FSIZE);          // growing a file beyond it would end this process
  const int64_t own = limit(RLIMIT_AS) / 4 / ranks;  // a process maps what all have
  return std::min({machine, file, own}) / page_bytes() * page_bytes();
}

Mapping NodeMemory::reach(const Address& address) {
  const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return {};
  struct stat found = {};
  const bool same = fstat(file, &found) == 0 && static_cast<int64_t>(found.st_dev) == address.device &&
                    static_cast<int64_t>(found.st_ino) == address.inode && found.st_size == address.bytes;
  Mapping mapping;
  if (same) mapping = Mapping(file, address.bytes);
  close(file);
  return mapping;
}

NodeMemory::NodeMemory(int file, Mapping mapping)
    : file_(file), mapping_(std::move(mapping)), places_(mapping_.bytes()) {}

NodeMemory::~NodeMemory() { close(file_); }

NodeMemory::Address NodeMemory::address() const {
  struct stat own = {};
  fstat(file_, &own);
  return {.process = getpid(),
          .file = file_,
          .device = static_cast<int64_t>(own.st_dev),
          .inode = static_cast<int64_t>(own.st_ino),
          .bytes = mapping_.bytes()};
}

at::Tensor NodeMemory::take(int64_t bytes) {
  const int64_t size = rounded_up(bytes, kAlign);
  std::optional<int64_t> start;
  if (bytes > 0) {
    const std::lock_guard lock(mutex_);
    start = places_.take(size);
  }
  if (!start) return at::empty({bytes}, at::kByte);
  return at::from_blob(
      memory() + *start, {bytes}, [all = shared_from_this(), at = *start, size](void*) { all->give_back(at, size); },
      at::TensorOptions().dtype(at::kByte));
}

void NodeMemory::give_back(int64_t start, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes >= kLarge) {
    const int64_t page = page_bytes(), first = rounded_up(start, page), end = (start + bytes) / page * page;
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, end - first);
  }
  places_.give_back(start, bytes);
}

std::optional<int64_t> NodeMemory::place(const at::Tensor& tensor) const {
  if (tensor.nbytes() == 0) return 0;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const auto base = reinterpret_cast<uintptr_t>(memory());
  const auto bytes = static_cast<uintptr_t>(mapping_.bytes());
  if (begin < base || begin - base > bytes || tensor.nbytes() > bytes - (begin - base)) return std::nullopt;
  return static_cast<int64_t>(begin - base);
}

}  // namespace plait::wire
