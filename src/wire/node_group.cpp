#include "wire/node_group.h"

#include <fmt/ranges.h>

#include <cstring>
#include <new>

#include "base/errors.h"
#include "wire/contracts.h"
#include "wire/futex.h"
#include "wire/stream.h"
#include "wire/sum.h"

namespace plait::wire {
namespace {

constexpr int64_t kSlot = 512 << 10;   // bytes of a block: two of each member stay in the cache
constexpr int64_t kEagerBytes = 4096;  // a message up to this size comes with the post
constexpr std::chrono::microseconds kNap{20'000}, kShortNap{200};

// One member's side of one collective; after it in memory: send_rows[n], receive_rows[n].
struct NodePost {
  Collective kind;
  int64_t bytes;       // that this member brings
  uint64_t signature;  // of what must be equal at all members
  int64_t rounds;      // blocks that this member needs to send all
  alignas(64) std::byte copy[kEagerBytes];
};

// Counters only grow, and wrap.
struct alignas(64) NodeSeat {
  std::atomic<uint32_t> arrived;  // collectives that it has come to
  std::atomic<uint32_t> filled;   // rounds whose block it has written
  std::atomic<uint32_t> drained;  // rounds whose blocks it has read
};

struct alignas(64) NodeDoor {
  std::atomic<uint32_t> event;  // changes with every counter
  std::atomic<uint32_t> sleepers;
};

bool reached(uint32_t counter, uint32_t wanted) { return static_cast<int32_t>(counter - wanted) >= 0; }

int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Where everything lies in the memory of a group.
struct Layout {
  std::byte* memory;
  int members;

  int64_t post_bytes() const { return lines(static_cast<int64_t>(sizeof(NodePost)) + 16 * members); }
  int64_t member_bytes() const { return lines(sizeof(NodeSeat)) + 2 * post_bytes() + 2 * kSlot; }
  int64_t bytes() const { return lines(sizeof(NodeDoor)) + members * member_bytes(); }

  NodeDoor& door() const { return *reinterpret_cast<NodeDoor*>(memory); }
  std::byte* of(int member) const { return memory + lines(sizeof(NodeDoor)) + member * member_bytes(); }
  NodeSeat& seat(int member) const { return *reinterpret_cast<NodeSeat*>(of(member)); }
  NodePost& post(int member, uint32_t sequence) const {
    return *reinterpret_cast<NodePost*>(of(member) + lines(sizeof(NodeSeat)) + sequence % 2 * post_bytes());
  }
  int64_t* rows(int member, uint32_t sequence) const { return reinterpret_cast<int64_t*>(&post(member, sequence) + 1); }
  std::byte* slot(int member, uint32_t round) const {
    return of(member) + lines(sizeof(NodeSeat)) + 2 * post_bytes() + round % 2 * kSlot;
  }
};

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

class NodeGroup final : public Group {
 public:
  NodeGroup(MemberOptions options, std::byte* memory)
      : options_(std::move(options)), layout_{memory, size()}, text_(ranks_text(ranks())) {
    sequence_ = mine().arrived;
    round_ = mine().drained;
  }

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
  void barrier() override {
    meet(
        {.kind = Collective::barrier}, [](uint32_t) {}, [](int64_t) {});
  }

 private:
  struct Call {
    Collective kind;
    int64_t bytes = 0;
    uint64_t signature = 0;
    int64_t rounds = 0;
    std::span<const int64_t> send_rows = {}, receive_rows = {};
  };

  NodeSeat& mine() const { return layout_.seat(rank()); }
  // Of all peers' parts in a slot that is cut in as many.
  int64_t share() const { return kSlot / size() / kCut * kCut; }

  // Everyone comes with a post, then blocks go round until the longest message is through. fill(round): writes this
  // member's block; drain(round): reads the others'. Rounds count from 0; a post alone has none.
  template <class Fill, class Drain>
  void meet(const Call& call, Fill fill, Drain drain);
  template <class Fill>
  void open(const Call& call, Fill fill);
  void compare() const;
  void compare_rows() const;
  std::string title(Collective kind) const { return fmt::format("{} {} of {}", name_of(kind), sequence_, text_); }

  // Until counter(seat) has reached `wanted` at all members.
  void await(std::atomic<uint32_t> NodeSeat::*counter, uint32_t wanted);
  void publish(std::atomic<uint32_t>& counter, uint32_t value);
  void gather(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  void scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  void sum_posts(const Stream& stream);
  void sum_slice(const Stream& stream, Slice part, int64_t round, int64_t start);
  uint32_t global(int64_t round) const { return first_round_ + static_cast<uint32_t>(round); }
  std::byte* my_slot(int64_t round) const { return layout_.slot(rank(), global(round)); }
  const std::byte* slot(int member, int64_t round) const { return layout_.slot(member, global(round)); }

  MemberOptions options_;
  Layout layout_;
  std::string text_;
  uint32_t sequence_ = 0;     // collectives begun
  uint32_t round_ = 0;        // rounds done since the memory was prepared
  uint32_t first_round_ = 0;  // of the collective that is open
  std::vector<const std::byte*> sources_;
};

void NodeGroup::publish(std::atomic<uint32_t>& counter, uint32_t value) {
  counter.store(value);
  NodeDoor& door = layout_.door();
  door.event.fetch_add(1);
  if (door.sleepers.load() > 0) wake_all(door.event, Reach::node);
}

void NodeGroup::await(std::atomic<uint32_t> NodeSeat::*counter, uint32_t wanted) {
  const auto come = [&] {
    uint64_t members = 0;
    bool all = true;
    for (int m = 0; m < size(); ++m) {
      const bool here = reached((layout_.seat(m).*counter).load(std::memory_order_acquire), wanted);
      all = all && here;
      if (m < 64 && here) members |= uint64_t{1} << m;
    }
    if (!all && options_.lane) options_.lane->arrived(members);
    return all;
  };
  for (int look = 0; look < options_.patience.spins; ++look) {
    if (come()) return;
    relax();
  }
  for (int look = 0; look < options_.patience.yields; ++look) {
    if (come()) return;
    if (options_.progress) options_.progress();
    std::this_thread::yield();
  }
  NodeDoor& door = layout_.door();
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const uint32_t seen = door.event.load();
    ++door.sleepers;
    const bool all = come();
    if (!all) sleep_while(door.event, seen, options_.progress ? kShortNap : kNap, Reach::node);
    --door.sleepers;
    if (all) return;
    if (options_.progress) options_.progress();
    if (options_.ended && options_.ended->load()) throw Abandoned("another lane of this rank has failed");
    if (std::chrono::steady_clock::now() < deadline) continue;
    std::vector<std::string> absent;
    for (int m = 0; m < size(); ++m)
      if (!reached((layout_.seat(m).*counter).load(), wanted)) absent.push_back(options_.name(ranks()[m]));
    throw CommError(fmt::format("{} waited {:g} s at {}: {} {} not arrived",
                                title(layout_.post(rank(), sequence_).kind), options_.timeout.count(),
                                options_.name(ranks()[rank()]), fmt::join(absent, ", "),
                                absent.size() == 1 ? "has" : "have"));
  }
}

template <class Fill>
void NodeGroup::open(const Call& call, Fill fill) {
  ++sequence_;
  first_round_ = round_;
  NodePost& post = layout_.post(rank(), sequence_);
  post.kind = call.kind;
  post.bytes = call.bytes;
  post.signature = call.signature;
  post.rounds = call.rounds;
  int64_t* rows = layout_.rows(rank(), sequence_);
  std::ranges::copy(call.send_rows, rows);
  std::ranges::copy(call.receive_rows, rows + size());
  if (options_.lane) options_.lane->begin_collective(text_, {call.kind, sequence_, call.bytes});
  if (call.rounds > 0) {  // the first block comes with the post
    if (round_ > 0) await(&NodeSeat::drained, round_ - 1);
    fill(0);
    mine().filled.store(round_ + 1);
  }
  publish(mine().arrived, sequence_);
  await(&NodeSeat::arrived, sequence_);
  compare();
}

template <class Fill, class Drain>
void NodeGroup::meet(const Call& call, Fill fill, Drain drain) {
  open(call, fill);
  int64_t rounds = 0;
  for (int m = 0; m < size(); ++m) rounds = std::max(rounds, layout_.post(m, sequence_).rounds);
  for (int64_t r = 0; r < rounds; ++r) {
    if (r > 0 || call.rounds == 0) {
      if (round_ > 0) await(&NodeSeat::drained, round_ - 1);
      if (r < call.rounds) fill(r);
      publish(mine().filled, round_ + 1);
    }
    await(&NodeSeat::filled, round_ + 1);
    drain(r);
    publish(mine().drained, ++round_);
  }
  if (options_.lane) options_.lane->end_collective();
}

// All members see the same posts, so all of them find the same fault.
void NodeGroup::compare() const {
  const NodePost& first = layout_.post(0, sequence_);
  for (int other = 1; other < size(); ++other) {
    const NodePost& theirs = layout_.post(other, sequence_);
    if (theirs.kind == first.kind && theirs.signature == first.signature) continue;
    throw CommError(fmt::format("collective {} of {}: {} calls {} of {} bytes, {} calls {} of {} bytes{}", sequence_,
                                text_, options_.name(ranks()[0]), name_of(first.kind), first.bytes,
                                options_.name(ranks()[other]), name_of(theirs.kind), theirs.bytes,
                                theirs.kind == first.kind ? " (sizes, types or root differ)" : ""));
  }
  if (first.kind == Collective::all_to_all) compare_rows();
}

void NodeGroup::compare_rows() const {
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      const int64_t sent = layout_.rows(from, sequence_)[to];
      const int64_t expected = layout_.rows(to, sequence_)[size() + from];
      if (sent == expected) continue;
      throw CommError(fmt::format("{}: {} sends {} rows to {}, which expects {}", title(Collective::all_to_all),
                                  options_.name(ranks()[from]), sent, options_.name(ranks()[to]), expected));
    }
  }
}

uint64_t type_key(const at::Tensor& tensor) { return static_cast<uint64_t>(tensor.scalar_type()); }

void NodeGroup::all_reduce(std::span<const at::Tensor> values) {
  check_all_reduce(values);
  const Stream stream(values);
  Call call{.kind = Collective::all_reduce, .bytes = stream.extent()};
  for (const at::Tensor& value : values) call.signature = mix(mix(call.signature, value.nbytes()), type_key(value));
  if (stream.extent() <= kEagerBytes) {
    NodePost& post = layout_.post(rank(), sequence_ + 1);
    stream.parts({0, stream.extent()},
                 [&](const Stream::Piece& p, int64_t at) { copy_bytes(post.copy + at, p.memory, p.bytes); });
    meet(
        call, [](int64_t) {}, [](int64_t) {});
    return sum_posts(stream);
  }
  // Rounds by turns: members bring a block, and each sums its slice of it; then the slices go to all. A sum is written
  // where the next round is read from, which nobody reads any more once all have brought this one.
  const int64_t blocks = (stream.extent() + kSlot - 1) / kSlot;
  call.rounds = 2 * blocks;
  const auto start = [](int64_t r) { return r / 2 * kSlot; };  // of the block, in the stream
  const auto part = [&](int64_t r, int member) {
    const Slice own = slice(std::min(kSlot, stream.extent() - start(r)), member, size());
    return Slice{start(r) + own.begin, start(r) + own.end};
  };
  const auto others = [&](int64_t r, auto each) {
    for (int i = 1; i < size(); ++i) {
      const int m = (rank() + i) % size();
      stream.parts(part(r, m), [&](const Stream::Piece& p, int64_t at) { each(m, p, at - start(r)); });
    }
  };
  const auto fill = [&](int64_t r) {
    if (r % 2 == 0)
      others(r, [&](int, const Stream::Piece& p, int64_t at) { copy_bytes(my_slot(r) + at, p.memory, p.bytes); });
  };
  const auto drain = [&](int64_t r) {
    if (r % 2 == 0) return sum_slice(stream, part(r, rank()), r, start(r));
    others(r, [&](int m, const Stream::Piece& p, int64_t at) { copy_bytes(p.memory, slot(m, r) + at, p.bytes); });
  };
  meet(call, fill, drain);
}

// Every member sums everything, in the same order.
void NodeGroup::sum_posts(const Stream& stream) {
  stream.parts({0, stream.extent()}, [&](const Stream::Piece& p, int64_t at) {
    sources_.clear();
    for (int m = 0; m < size(); ++m) sources_.push_back(layout_.post(m, sequence_).copy + at);
    std::byte* target = p.memory;
    sum_into(p.type, sources_, {&target, 1}, p.bytes);
  });
}

// `part` of the block of a round, which begins at `start` of the stream: into this member's values and its next slot.
void NodeGroup::sum_slice(const Stream& stream, Slice part, int64_t round, int64_t start) {
  stream.parts(part, [&](const Stream::Piece& p, int64_t at) {
    sources_.clear();
    for (int m = 0; m < size(); ++m) sources_.push_back(m == rank() ? p.memory : slot(m, round) + (at - start));
    std::byte* const targets[] = {p.memory, my_slot(round + 1) + (at - start)};
    sum_into(p.type, sources_, targets, p.bytes);
  });
}

// bytes[m] of member m, one after another in `out`.
void NodeGroup::gather(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out) {
  Call call{.kind = Collective::all_gather, .bytes = static_cast<int64_t>(in.nbytes()), .signature = type_key(in)};
  const std::vector<int64_t> starts = starts_of(bytes);
  for (int64_t b : bytes) call.signature = mix(call.signature, b);
  copy_bytes(bytes_of(out) + starts[rank()], bytes_of(in), call.bytes);
  if (std::ranges::all_of(bytes, [](int64_t b) { return b <= kEagerBytes; })) {
    copy_bytes(layout_.post(rank(), sequence_ + 1).copy, bytes_of(in), call.bytes);
    meet(
        call, [](int64_t) {}, [](int64_t) {});
    for (int m = 0; m < size(); ++m)
      if (m != rank()) copy_bytes(bytes_of(out) + starts[m], layout_.post(m, sequence_).copy, bytes[m]);
    return;
  }
  call.rounds = (call.bytes + kSlot - 1) / kSlot;
  const auto part = [&](int m, int64_t r) { return std::clamp<int64_t>(bytes[m] - r * kSlot, 0, kSlot); };
  const auto fill = [&](int64_t r) { copy_bytes(my_slot(r), bytes_of(in) + r * kSlot, part(rank(), r)); };
  const auto drain = [&](int64_t r) {
    for (int i = 1; i < size(); ++i) {
      const int m = (rank() + i) % size();
      if (part(m, r) > 0) copy_bytes(bytes_of(out) + starts[m] + r * kSlot, slot(m, r), part(m, r));
    }
  };
  meet(call, fill, drain);
}

// bytes[m] of `in` belong to member m; each sums its own.
void NodeGroup::scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out) {
  Call call{.kind = Collective::reduce_scatter, .bytes = static_cast<int64_t>(in.nbytes()), .signature = type_key(in)};
  const std::vector<int64_t> starts = starts_of(bytes);
  for (int64_t b : bytes) call.signature = mix(call.signature, b);
  std::byte* target = bytes_of(out);
  if (call.bytes <= kEagerBytes) {
    copy_bytes(layout_.post(rank(), sequence_ + 1).copy, bytes_of(in), call.bytes);
    meet(
        call, [](int64_t) {}, [](int64_t) {});
    sources_.clear();
    for (int m = 0; m < size(); ++m) sources_.push_back(layout_.post(m, sequence_).copy + starts[rank()]);
    return sum_into(out.scalar_type(), sources_, {&target, 1}, out.nbytes());
  }
  const auto part = [&](int m, int64_t r) { return std::clamp<int64_t>(bytes[m] - r * share(), 0, share()); };
  for (int m = 0; m < size(); ++m) call.rounds = std::max(call.rounds, (bytes[m] + share() - 1) / share());
  const auto fill = [&](int64_t r) {
    for (int m = 0; m < size(); ++m)
      if (m != rank() && part(m, r) > 0)
        copy_bytes(my_slot(r) + m * share(), bytes_of(in) + starts[m] + r * share(), part(m, r));
  };
  const auto drain = [&](int64_t r) {
    if (part(rank(), r) == 0) return;
    sources_.clear();
    for (int m = 0; m < size(); ++m)
      sources_.push_back(m == rank() ? bytes_of(in) + starts[m] + r * share() : slot(m, r) + rank() * share());
    std::byte* block = target + r * share();
    sum_into(out.scalar_type(), sources_, {&block, 1}, part(rank(), r));
  };
  meet(call, fill, drain);
}

void NodeGroup::all_gather(const at::Tensor& in, const at::Tensor& out) {
  check_all_gather(in, out, size());
  gather(std::vector<int64_t>(size(), in.nbytes()), in, out);
}

void NodeGroup::reduce_scatter(const at::Tensor& in, const at::Tensor& out) {
  check_reduce_scatter(in, out, size());
  scatter(std::vector<int64_t>(size(), out.nbytes()), in, out);
}

void NodeGroup::all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "all_gather_rows: one count per member");
  check_all_gather_rows(in, out, rows, rank());
  gather(bytes_of_rows(rows, row_bytes(in)), in, out);
}

void NodeGroup::reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "reduce_scatter_rows: one count per member");
  check_reduce_scatter_rows(in, out, rows, rank());
  scatter(bytes_of_rows(rows, row_bytes(in)), in, out);
}

void NodeGroup::all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                           std::span<const int64_t> receive_rows) {
  expects(static_cast<int>(send_rows.size()) == size() && static_cast<int>(receive_rows.size()) == size(),
          "all_to_all: one count per member");
  check_all_to_all(in, out, send_rows, receive_rows);
  const int64_t row = row_bytes(in);
  Call call{.kind = Collective::all_to_all,
            .bytes = static_cast<int64_t>(in.nbytes()),
            .signature = mix(type_key(in), row),
            .send_rows = send_rows,
            .receive_rows = receive_rows};
  const std::vector<int64_t> sent = bytes_of_rows(send_rows, row), received = bytes_of_rows(receive_rows, row);
  const std::vector<int64_t> from = starts_of(sent), to = starts_of(received);
  const auto part = [&](int64_t bytes, int64_t r) { return std::clamp<int64_t>(bytes - r * share(), 0, share()); };
  for (int m = 0; m < size(); ++m)
    if (m != rank()) call.rounds = std::max(call.rounds, (sent[m] + share() - 1) / share());
  copy_bytes(bytes_of(out) + to[rank()], bytes_of(in) + from[rank()], std::min(sent[rank()], received[rank()]));
  const auto fill = [&](int64_t r) {
    for (int m = 0; m < size(); ++m)
      if (m != rank() && part(sent[m], r) > 0)
        copy_bytes(my_slot(r) + m * share(), bytes_of(in) + from[m] + r * share(), part(sent[m], r));
  };
  const auto drain = [&](int64_t r) {
    for (int i = 1; i < size(); ++i) {
      const int m = (rank() + i) % size();
      if (part(received[m], r) > 0)
        copy_bytes(bytes_of(out) + to[m] + r * share(), slot(m, r) + rank() * share(), part(received[m], r));
    }
  };
  meet(call, fill, drain);
}

void NodeGroup::broadcast(const at::Tensor& value, int root) {
  check_broadcast(value, root, size());
  const int64_t bytes = value.nbytes();
  Call call{.kind = Collective::broadcast,
            .bytes = bytes,
            .signature = mix(mix(type_key(value), bytes), root),
            .rounds = rank() == root ? (bytes + kSlot - 1) / kSlot : 0};
  const auto part = [&](int64_t r) { return std::min(kSlot, bytes - r * kSlot); };
  const auto fill = [&](int64_t r) { copy_bytes(my_slot(r), bytes_of(value) + r * kSlot, part(r)); };
  const auto drain = [&](int64_t r) {
    if (rank() != root) copy_bytes(bytes_of(value) + r * kSlot, slot(root, r), part(r));
  };
  meet(call, fill, drain);
}

}  // namespace

int64_t node_group_bytes(int members) { return Layout{nullptr, members}.bytes(); }

void prepare_node_group(std::byte* memory, int members) {
  const Layout layout{memory, members};
  new (&layout.door()) NodeDoor{};
  for (int m = 0; m < members; ++m) new (&layout.seat(m)) NodeSeat{};
}

std::shared_ptr<Group> node_group(MemberOptions options, std::byte* memory) {
  return std::make_shared<NodeGroup>(std::move(options), memory);
}

}  // namespace plait::wire
