#include "wire/node/group.h"

#include <new>

#include "base/errors.h"
#include "wire/contracts.h"
#include "wire/node/meeting.h"
#include "wire/sum.h"

namespace plait::wire {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

class NodeGroup final : public Group {
 public:
  NodeGroup(MemberOptions options, std::byte* memory) : meeting_(std::move(options), memory) {}

  int rank() const override { return meeting_.member(); }
  const std::vector<int>& ranks() const override { return meeting_.ranks(); }

  void all_reduce(std::span<const at::Tensor> values) override;
  void all_gather(const at::Tensor& in, const at::Tensor& out) override;
  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override;
  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override;
  void broadcast(const at::Tensor& value, int root) override;
  void barrier() override {
    meeting_.meet_small({.kind = Collective::barrier}, [](const Members&) {});
  }

 private:
  // Of all peers' parts in a slot that is cut in as many.
  int64_t share() const { return kSlot / size() / kCut * kCut; }

  void sum_large(NodeCall call, const Stream& stream);
  void sum_slice(const Stream& stream, Slice part, int64_t round, int64_t start);
  void gather(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  void scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out);
  std::byte* my_slot(int64_t round) const { return meeting_.my_slot(round); }
  const std::byte* slot(int member, int64_t round) const { return meeting_.slot(member, round); }

  NodeMeeting meeting_;
  std::vector<const std::byte*> sources_;
};

uint64_t type_key(const at::Tensor& tensor) { return static_cast<uint64_t>(tensor.scalar_type()); }

void NodeGroup::all_reduce(std::span<const at::Tensor> values) {
  check_all_reduce(values);
  const Stream stream(values);
  NodeCall call{.kind = Collective::all_reduce, .bytes = stream.extent(), .values = values};
  for (const at::Tensor& value : values) call.signature = mix(mix(call.signature, value.nbytes()), type_key(value));
  if (stream.extent() > kPostBytes) return sum_large(call, stream);
  meeting_.meet_small(call, [&](const Members& members) { sum_all(members, stream); });
}

void NodeGroup::sum_large(NodeCall call, const Stream& stream) {
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
  meeting_.meet(call, fill, drain, [&](const Members& members) { sum_own_slice(members, stream); });
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
  NodeCall call{.kind = Collective::all_gather,
                .bytes = static_cast<int64_t>(in.nbytes()),
                .signature = type_key(in),
                .values = {&in, 1}};
  const std::vector<int64_t> starts = starts_of(bytes);
  for (int64_t b : bytes) call.signature = mix(call.signature, b);
  copy_bytes(bytes_of(out) + starts[rank()], bytes_of(in), call.bytes);
  const auto direct = [&](const Members& members) {
    Slices parts;
    for (int64_t b : bytes) parts.push_back({0, b});
    fetch(members, parts, out);
  };
  if (std::ranges::all_of(bytes, [](int64_t b) { return b <= kPostBytes; })) return meeting_.meet_small(call, direct);
  call.rounds = (call.bytes + kSlot - 1) / kSlot;
  const auto part = [&](int m, int64_t r) { return std::clamp<int64_t>(bytes[m] - r * kSlot, 0, kSlot); };
  const auto fill = [&](int64_t r) { copy_bytes(my_slot(r), bytes_of(in) + r * kSlot, part(rank(), r)); };
  const auto drain = [&](int64_t r) {
    for (int i = 1; i < size(); ++i) {
      const int m = (rank() + i) % size();
      if (part(m, r) > 0) copy_bytes(bytes_of(out) + starts[m] + r * kSlot, slot(m, r), part(m, r));
    }
  };
  meeting_.meet(call, fill, drain, direct);
}

// bytes[m] of `in` belong to member m; each sums its own.
void NodeGroup::scatter(std::span<const int64_t> bytes, const at::Tensor& in, const at::Tensor& out) {
  NodeCall call{.kind = Collective::reduce_scatter,
                .bytes = static_cast<int64_t>(in.nbytes()),
                .signature = type_key(in),
                .values = {&in, 1}};
  const std::vector<int64_t> starts = starts_of(bytes);
  for (int64_t b : bytes) call.signature = mix(call.signature, b);
  const auto direct = [&](const Members& members) { sum_part(members, starts[rank()], out); };
  if (call.bytes <= kPostBytes) return meeting_.meet_small(call, direct);
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
    std::byte* block = bytes_of(out) + r * share();
    sum_into(out.scalar_type(), sources_, {&block, 1}, part(rank(), r));
  };
  meeting_.meet(call, fill, drain, direct);
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
  NodeCall call{.kind = Collective::all_to_all,
                .bytes = static_cast<int64_t>(in.nbytes()),
                .signature = mix(type_key(in), row),
                .send_rows = send_rows,
                .receive_rows = receive_rows,
                .values = {&in, 1}};
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
  const auto direct = [&](const Members& members) {
    Slices parts;
    for (int m = 0; m < size(); ++m) parts.push_back(part_of(rank(), bytes_of_rows(meeting_.send_rows(m), row)));
    fetch(members, parts, out);
  };
  meeting_.meet(call, fill, drain, direct);
}

void NodeGroup::broadcast(const at::Tensor& value, int root) {
  check_broadcast(value, root, size());
  const int64_t bytes = value.nbytes();
  NodeCall call{.kind = Collective::broadcast,
                .bytes = bytes,
                .signature = mix(mix(type_key(value), bytes), root),
                .rounds = rank() == root ? (bytes + kSlot - 1) / kSlot : 0,
                .values = {&value, 1}};
  const auto part = [&](int64_t r) { return std::min(kSlot, bytes - r * kSlot); };
  const auto fill = [&](int64_t r) { copy_bytes(my_slot(r), bytes_of(value) + r * kSlot, part(r)); };
  const auto drain = [&](int64_t r) {
    if (rank() != root) copy_bytes(bytes_of(value) + r * kSlot, slot(root, r), part(r));
  };
  const auto direct = [&](const Members& members) {
    if (rank() != root) copy_bytes(bytes_of(value), members.at(root), bytes);
  };
  meeting_.meet(call, fill, drain, direct);
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
