#include "wire/mpi/group.h"

#include <fmt/ranges.h>
#include <sys/prctl.h>

#include <cstring>

#include "base/errors.h"
#include "wire/contracts.h"
#include "wire/stream.h"
#include "wire/sum.h"

namespace plait::wire {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;  // of one message of MPI, whose counts are ints
constexpr int64_t kSmall = 8192;                  // an all_reduce up to this size goes to all as it is

// A wait looks again after a nap of this part of the time it has taken so far: so it ends soon after its message came,
// and leaves the core to those that compute.
constexpr int kNaps = 16;
constexpr std::chrono::microseconds kShortestNap{10}, kLongestNap{200};

using Memory = std::unique_ptr<std::byte[]>;
Memory scratch(int64_t bytes) { return std::make_unique_for_overwrite<std::byte[]>(bytes); }

int64_t in_lines(int64_t bytes) { return (bytes + kCut - 1) / kCut * kCut; }

// By default the kernel adds up to 50 us to a nap, so that several threads wake at once.
void nap(std::chrono::nanoseconds time) {
  static thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1000);
  if (exact != 0) std::this_thread::yield();
  std::this_thread::sleep_for(time);
}

class MpiGroup final : public Group {
 public:
  MpiGroup(MemberOptions options, std::shared_ptr<MpiRuntime::Channel> channel)
      : options_(std::move(options)), channel_(std::move(channel)), text_(launch::ranks_text(ranks())) {}

  int rank() const override { return options_.member; }
  const std::vector<int>& ranks() const override { return options_.ranks; }

  void all_reduce(std::span<const at::Tensor> values) override;
  void all_gather(const at::Tensor& in, const at::Tensor& out) override;
  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override;
  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override;
  void broadcast(const at::Tensor& value, int root) override;
  void barrier() override;

 private:
  struct Pending {
    int peer;
    int64_t bytes;  // expected; -1: a message that is sent
  };

  void begin(Collective kind, int64_t bytes);
  void send(int peer, const std::byte* memory, int64_t bytes);
  void receive(int peer, std::byte* memory, int64_t bytes);
  // Until all messages are through.
  void finish();
  void end() {
    if (options_.lane) options_.lane->end_collective();
  }

  int tag() const { return static_cast<int>(channel_->sequence % (1 << 20)) * 8 + static_cast<int>(kind_); }
  std::string title() const { return fmt::format("{} {} of {}", name(kind_), channel_->sequence, text_); }
  // Takes what MPI has finished; false when nothing was.
  bool take();
  void compare(const Pending& message, const MPI_Status& status) const;
  void tell_arrived() const;
  std::string late() const;
  int peer(int distance) const { return (rank() + distance) % size(); }

  // bytes[m] of `memory` to every member m; sums what comes for this member, in the order of the members, into `to`,
  // which may be its own part of `memory`.
  struct Parts {
    std::span<const int64_t> starts, bytes;
  };
  void reduce_parts(const std::byte* memory, const Parts& parts, at::ScalarType type, std::byte* to);
  void gather_parts(std::byte* memory, const Parts& parts);
  void gather(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  void scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  void reduce_small(const Stream& stream);
  void reduce_stream(const Stream& stream);

  MemberOptions options_;
  std::shared_ptr<MpiRuntime::Channel> channel_;
  std::string text_;
  Collective kind_ = Collective::barrier;
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
};

void MpiGroup::begin(Collective kind, int64_t bytes) {
  kind_ = kind;
  ++channel_->sequence;
  if (options_.lane) options_.lane->begin_collective(text_, {kind, channel_->sequence, bytes});
}

void MpiGroup::send(int peer, const std::byte* memory, int64_t bytes) {
  for (int64_t at = 0; at == 0 || at < bytes; at += kMostBytes) {
    pending_.push_back({peer, -1});
    requests_.emplace_back();
    mpi_check(MPI_Isend(memory + at, static_cast<int>(std::min(kMostBytes, bytes - at)), MPI_BYTE, peer, tag(),
                        channel_->comm, &requests_.back()),
              "MPI_Isend");
  }
}

// Any tag matches, so that another collective of the peer shows at once.
void MpiGroup::receive(int peer, std::byte* memory, int64_t bytes) {
  for (int64_t at = 0; at == 0 || at < bytes; at += kMostBytes) {
    pending_.push_back({peer, std::min(kMostBytes, bytes - at)});
    requests_.emplace_back();
    mpi_check(MPI_Irecv(memory + at, static_cast<int>(pending_.back().bytes), MPI_BYTE, peer, MPI_ANY_TAG,
                        channel_->comm, &requests_.back()),
              "MPI_Irecv");
  }
}

void MpiGroup::compare(const Pending& message, const MPI_Status& status) const {
  if (message.bytes < 0) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  const std::string& theirs = options_.name(ranks()[message.peer]);
  if (status.MPI_TAG != tag())
    throw CommError(fmt::format("{}: {} calls {} {} instead", title(), theirs,
                                name(static_cast<Collective>(status.MPI_TAG % 8)), status.MPI_TAG / 8));
  if (status.MPI_ERROR == MPI_ERR_TRUNCATE || bytes != message.bytes)
    throw CommError(fmt::format("{}: {} sends {} bytes than the {} that {} expects (sizes, types or rows differ)",
                                title(), theirs, status.MPI_ERROR == MPI_ERR_TRUNCATE ? "more" : "less", message.bytes,
                                options_.name(ranks()[rank()])));
}

bool MpiGroup::take() {
  int count = 0;
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) mpi_check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  for (int i = 0; i < count; ++i) {
    const Pending& message = pending_[done_[i]];
    if (code == MPI_SUCCESS) statuses_[i].MPI_ERROR = MPI_SUCCESS;
    compare(message, statuses_[i]);
    mpi_check(statuses_[i].MPI_ERROR, title().c_str());
  }
  for (int i = 0; i < count; ++i) pending_[done_[i]].peer = -1;
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i].peer < 0) continue;
    pending_[kept] = pending_[i];
    requests_[kept++] = requests_[i];
  }
  pending_.resize(kept);
  requests_.resize(kept);
  return true;
}

void MpiGroup::tell_arrived() const {
  if (!options_.lane) return;
  uint64_t members = ~uint64_t{0};
  for (const Pending& p : pending_)
    if (p.bytes >= 0 && p.peer < 64) members &= ~(uint64_t{1} << p.peer);
  options_.lane->arrived(members);
}

std::string MpiGroup::late() const {
  std::vector<bool> missing(size(), false), slow(size(), false);
  for (const Pending& p : pending_) (p.bytes >= 0 ? missing : slow)[p.peer] = true;
  std::vector<std::string> absent;
  for (int m = 0; m < size(); ++m)
    if (missing[m] || slow[m])
      absent.push_back(
          fmt::format("{} has {}", options_.name(ranks()[m]), missing[m] ? "not arrived" : "not taken what was sent"));
  return fmt::format("{} waited {:g} s at {}: {}", title(), options_.timeout.count(), options_.name(ranks()[rank()]),
                     fmt::join(absent, ", "));
}

void MpiGroup::finish() {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  launch::Deadline deadline(options_.timeout);
  for (int look = 0; !requests_.empty();) {
    if (take()) {
      look = 0;
      start = Clock::now();
      continue;
    }
    if (++look < options_.patience.yields) {
      std::this_thread::yield();
      continue;
    }
    tell_arrived();
    if (options_.ended && options_.ended->load()) throw Abandoned("another lane of this rank has failed");
    if (deadline.passed()) throw CommError(late());
    nap(std::clamp<Clock::duration>((Clock::now() - start) / kNaps, kShortestNap, kLongestNap));
  }
}

void MpiGroup::reduce_parts(const std::byte* memory, const Parts& parts, at::ScalarType type, std::byte* to) {
  const int64_t mine = parts.bytes[rank()], stride = in_lines(mine);
  const Memory theirs = scratch(stride * (size() - 1));
  std::vector<const std::byte*> sources(size());
  sources[rank()] = memory + parts.starts[rank()];
  int64_t next = 0;
  for (int i = 1; i < size(); ++i) {
    const int from = peer(size() - i), into = peer(i);
    std::byte* place = theirs.get() + stride * next++;
    sources[from] = place;
    if (mine > 0) receive(from, place, mine);
    if (parts.bytes[into] > 0) send(into, memory + parts.starts[into], parts.bytes[into]);
  }
  finish();
  sum_into(type, sources, {&to, 1}, mine);
}

void MpiGroup::gather_parts(std::byte* memory, const Parts& parts) {
  for (int i = 1; i < size(); ++i) {
    const int from = peer(size() - i), into = peer(i);
    if (parts.bytes[from] > 0) receive(from, memory + parts.starts[from], parts.bytes[from]);
    if (parts.bytes[rank()] > 0) send(into, memory + parts.starts[rank()], parts.bytes[rank()]);
  }
  finish();
}

// The values packed, to everyone; every member sums everything, in the same order.
void MpiGroup::reduce_small(const Stream& stream) {
  const int64_t bytes = stream.extent();
  const Memory all = scratch(bytes * size());
  std::vector<int64_t> starts(size()), sizes(size(), bytes);
  for (int m = 0; m < size(); ++m) starts[m] = bytes * m;
  const Slice whole{0, bytes};
  stream.parts(whole, [&](const Stream::Piece& p, int64_t at) {
    std::memcpy(all.get() + starts[rank()] + at, p.memory, p.bytes);
  });
  gather_parts(all.get(), {starts, sizes});
  std::vector<const std::byte*> sources(size());
  stream.parts(whole, [&](const Stream::Piece& p, int64_t at) {
    for (int m = 0; m < size(); ++m) sources[m] = all.get() + starts[m] + at;
    std::byte* target = p.memory;
    sum_into(p.type, sources, {&target, 1}, p.bytes);
  });
}

// Every member sums its slice of the values, then the slices go to all.
void MpiGroup::reduce_stream(const Stream& stream) {
  const Slice whole{0, stream.extent()};
  int num_pieces = 0;
  std::byte* memory = nullptr;
  stream.parts(whole, [&](const Stream::Piece& p, int64_t) {
    ++num_pieces;
    memory = p.memory;
  });
  const Memory packed = num_pieces > 1 ? scratch(stream.extent()) : nullptr;
  if (packed) {
    memory = packed.get();
    stream.parts(whole, [&](const Stream::Piece& p, int64_t at) { std::memcpy(memory + at, p.memory, p.bytes); });
  }
  const int64_t bytes = num_pieces > 1 ? stream.extent() : stream.bytes();
  std::vector<int64_t> starts(size()), sizes(size());
  for (int m = 0; m < size(); ++m) {
    const Slice part = slice(bytes, m, size());
    starts[m] = part.begin;
    sizes[m] = part.size();
  }
  const Slice mine = slice(bytes, rank(), size());
  const int64_t stride = in_lines(mine.size());
  const Memory theirs = scratch(stride * size());
  for (int i = 1; i < size(); ++i) {
    const int from = peer(size() - i), into = peer(i);
    if (mine.size() > 0) receive(from, theirs.get() + stride * from, mine.size());
    if (sizes[into] > 0) send(into, memory + starts[into], sizes[into]);
  }
  finish();
  std::vector<const std::byte*> sources(size());
  stream.parts(mine, [&](const Stream::Piece& p, int64_t at) {
    for (int m = 0; m < size(); ++m)
      sources[m] = m == rank() ? memory + at : theirs.get() + stride * m + (at - mine.begin);
    std::byte* target = memory + at;
    sum_into(p.type, sources, {&target, 1}, p.bytes);
  });
  gather_parts(memory, {starts, sizes});
  if (packed)
    stream.parts(whole, [&](const Stream::Piece& p, int64_t at) { std::memcpy(p.memory, memory + at, p.bytes); });
}

void MpiGroup::all_reduce(std::span<const at::Tensor> values) {
  check_all_reduce(values);
  const Stream stream(values);
  begin(Collective::all_reduce, stream.extent());
  stream.extent() <= kSmall ? reduce_small(stream) : reduce_stream(stream);
  end();
}

// bytes[m] of member m, one after another in `out`.
void MpiGroup::gather(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out) {
  begin(Collective::all_gather, in.nbytes());
  const std::vector<int64_t> starts = starts_of(bytes);
  copy_bytes(bytes_of(out) + starts[rank()], bytes_of(in), in.nbytes());
  gather_parts(bytes_of(out), {starts, bytes});
  end();
}

// bytes[m] of `in` belong to member m; each sums its own.
void MpiGroup::scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out) {
  begin(Collective::reduce_scatter, in.nbytes());
  const std::vector<int64_t> starts = starts_of(bytes);
  reduce_parts(bytes_of(in), {starts, bytes}, out.scalar_type(), bytes_of(out));
  end();
}

void MpiGroup::all_gather(const at::Tensor& in, const at::Tensor& out) {
  check_all_gather(in, out, size());
  gather(std::vector<int64_t>(size(), in.nbytes()), in, out);
}

void MpiGroup::all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "all_gather_rows: one count per member");
  check_all_gather_rows(in, out, rows, rank());
  gather(bytes_of_rows(rows, row_bytes(in)), in, out);
}

void MpiGroup::reduce_scatter(const at::Tensor& in, const at::Tensor& out) {
  check_reduce_scatter(in, out, size());
  scatter(std::vector<int64_t>(size(), out.nbytes()), in, out);
}

void MpiGroup::reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "reduce_scatter_rows: one count per member");
  check_reduce_scatter_rows(in, out, rows, rank());
  scatter(bytes_of_rows(rows, row_bytes(in)), in, out);
}

void MpiGroup::all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                          std::span<const int64_t> receive_rows) {
  expects(static_cast<int>(send_rows.size()) == size() && static_cast<int>(receive_rows.size()) == size(),
          "all_to_all: one count per member");
  check_all_to_all(in, out, send_rows, receive_rows);
  begin(Collective::all_to_all, in.nbytes());
  const int64_t row = row_bytes(in);
  const std::vector<int64_t> sent = bytes_of_rows(send_rows, row), received = bytes_of_rows(receive_rows, row);
  const std::vector<int64_t> from = starts_of(sent), to = starts_of(received);
  for (int i = 1; i < size(); ++i) {
    const int q = peer(size() - i), p = peer(i);
    if (received[q] > 0) receive(q, bytes_of(out) + to[q], received[q]);
    if (sent[p] > 0) send(p, bytes_of(in) + from[p], sent[p]);
  }
  copy_bytes(bytes_of(out) + to[rank()], bytes_of(in) + from[rank()], std::min(sent[rank()], received[rank()]));
  finish();
  end();
}

// Down a binomial tree whose top is the root.
void MpiGroup::broadcast(const at::Tensor& value, int root) {
  check_broadcast(value, root, size());
  begin(Collective::broadcast, value.nbytes());
  const int place = (rank() - root + size()) % size();
  int reach = 1;  // the distance from which this member receives: the highest bit of its place
  while (2 * reach <= place) reach *= 2;
  if (place > 0) {
    receive((place - reach + root) % size(), bytes_of(value), value.nbytes());
    finish();
  }
  for (int step = place > 0 ? 2 * reach : 1; place + step < size(); step *= 2)
    send((place + step + root) % size(), bytes_of(value), value.nbytes());
  finish();
  end();
}

// In round k everyone hears of those up to 2^k places before it.
void MpiGroup::barrier() {
  begin(Collective::barrier, 0);
  for (int distance = 1; distance < size(); distance *= 2) {
    receive(peer(size() - distance), nullptr, 0);
    send(peer(distance), nullptr, 0);
    finish();
  }
  end();
}

}  // namespace

std::shared_ptr<Group> mpi_group(MemberOptions options, std::shared_ptr<MpiRuntime::Channel> channel) {
  return std::make_shared<MpiGroup>(std::move(options), std::move(channel));
}

}  // namespace plait::wire
