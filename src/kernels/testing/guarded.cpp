#include "kernels/testing/guarded.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

bool plait::guard_memory() { return false; }

#else

#include <c10/core/CPUAllocator.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>

namespace plait {
namespace {

constexpr size_t kPage = 4096, kSpace = size_t{1} << 37;  // of addresses, each given out once
constexpr unsigned char kUntouched = 0xa5;

using Byte = unsigned char;

struct Guarded {
  std::atomic<Byte*> first = nullptr;                      // null: nothing is guarded
  size_t* asked = nullptr;                                 // by page: bytes of what begins there
  std::atomic<size_t> given = 0, tensors = 0, others = 0;  // bytes, and how many pieces of each

  bool holds(const void* p) const {
    const auto* byte = static_cast<const Byte*>(p);
    return first && byte >= first && byte < first + kSpace;
  }
} guarded;

[[noreturn]] void end(std::string_view why) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, why.data(), why.size());
  std::abort();
}

void* map(void* where, size_t bytes, int access) {
  const int fixed = where ? MAP_FIXED : 0;
  void* p = mmap(where, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (p == MAP_FAILED) end("guarded memory: no more of it\n");
  return p;
}

size_t pages(size_t bytes) { return std::max<size_t>(1, (bytes + kPage - 1) / kPage) * kPage; }

// Pieces of few pages that were given back, by their number, each with the next in its first bytes: what is asked for
// a million times costs no call of the system each time.
constexpr size_t kFew = 8;
struct Spare {
  std::mutex mutex;
  Byte* first[kFew + 1] = {};

  Byte* take(size_t count) {
    if (count > kFew) return nullptr;
    const std::lock_guard lock(mutex);
    Byte* const begin = first[count];
    if (begin) std::memcpy(&first[count], begin, sizeof(Byte*));
    return begin;
  }
  bool put(Byte* begin, size_t count) {
    if (count > kFew) return false;
    const std::lock_guard lock(mutex);
    std::memcpy(begin, &first[count], sizeof(Byte*));
    first[count] = begin;
    return true;
  }
} spare;

Byte* fresh(size_t own) {
  const size_t at = guarded.given.fetch_add(own + kPage) + kPage;
  if (at + own + kPage > kSpace) end("guarded memory: all addresses were given out\n");
  if (mprotect(guarded.first + at, own, PROT_READ | PROT_WRITE) != 0) end("guarded memory: no more of it\n");
  return guarded.first + at;
}

// Of which `align` divides the address. Every piece has a page without access in front of its own. `turn`: odd begin
// there.
void* take(size_t bytes, size_t align, size_t turn) {
  const size_t own = pages(bytes);
  Byte* const known = spare.take(own / kPage);
  Byte* const begin = known ? known : fresh(own);
  Byte* const piece = turn % 2 ? begin : begin + (own - bytes) / align * align;
  std::fill(begin, piece, kUntouched);
  std::fill(piece + bytes, begin + own, kUntouched);
  guarded.asked[static_cast<size_t>(begin - guarded.first) / kPage] = bytes;
  return piece;
}

void give_back(void* p) {
  if (!p) return;
  auto* const piece = static_cast<Byte*>(p);
  const size_t page = static_cast<size_t>(piece - guarded.first) / kPage, bytes = guarded.asked[page];
  Byte* const begin = guarded.first + page * kPage;
  const auto untouched = [](const Byte* from, const Byte* to) {
    return std::all_of(from, to, [](Byte b) { return b == kUntouched; });
  };
  if (!untouched(begin, piece) || !untouched(piece + bytes, begin + pages(bytes)))
    end("guarded memory: something was written beyond an end\n");
  if (!spare.put(begin, pages(bytes) / kPage)) map(begin, pages(bytes), PROT_NONE);
}

struct Tensors final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* const p = bytes ? take(bytes, 1, guarded.tensors++) : nullptr;
    return {p, p, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

// Says what it was, and lets the program end by it.
void on_fault(int signal, siginfo_t* info, void*) {
  constexpr std::string_view kWhat = "guarded memory: something beyond an end was touched\n";
  if (guarded.holds(info->si_addr)) [[maybe_unused]]
    const auto written = write(STDERR_FILENO, kWhat.data(), kWhat.size());
  ::signal(signal, SIG_DFL);
}

}  // namespace

bool guard_memory() {
  if (guarded.first) return true;
  guarded.asked = static_cast<size_t*>(map(nullptr, kSpace / kPage * sizeof(size_t), PROT_READ | PROT_WRITE));
  guarded.first = static_cast<Byte*>(map(nullptr, kSpace, PROT_NONE));
  static Tensors tensors;
  c10::SetCPUAllocator(&tensors, 1);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  return true;
}

}  // namespace plait

// All others of the language call these.
void* operator new(size_t bytes) {
  if (plait::guarded.first) return plait::take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__, plait::guarded.others++);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}

void operator delete(void* p) noexcept { plait::guarded.holds(p) ? plait::give_back(p) : std::free(p); }
void operator delete(void* p, size_t) noexcept { operator delete(p); }

#endif
