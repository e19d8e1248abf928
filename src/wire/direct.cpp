#include "wire/direct.h"

#include "wire/sum.h"

namespace plait::wire {
namespace {

using Sources = c10::SmallVector<const std::byte*, kFew>;
using Targets = c10::SmallVector<std::byte*, kFew>;

// The same place in all members' memory, in the order of the members.
Sources sources(const Members& members, const Stream::Piece& piece) {
  Sources all;
  for (int m = 0; m < members.size; ++m) all.push_back(members.at(m, piece.value) + piece.skipped);
  return all;
}

}  // namespace

void sum_all(const Members& members, const Stream& values) {
  values.parts({0, values.extent()}, [&](const Stream::Piece& p, int64_t) {
    std::byte* const target = p.memory;
    sum_into(p.type, sources(members, p), {&target, 1}, p.bytes);
  });
}

void sum_own_slice(const Members& members, const Stream& values) {
  Targets targets;
  values.parts(slice(values.extent(), members.me, members.size), [&](const Stream::Piece& p, int64_t) {
    targets.clear();
    for (int m = 0; m < members.size; ++m) targets.push_back(members.at(m, p.value) + p.skipped);
    sum_into(p.type, sources(members, p), targets, p.bytes);
  });
}

void sum_part(const Members& members, int64_t start, const at::Tensor& out) {
  Sources parts;
  for (int m = 0; m < members.size; ++m) parts.push_back(members.at(m) + start);
  std::byte* const target = bytes_of(out);
  sum_into(out.scalar_type(), parts, {&target, 1}, static_cast<int64_t>(out.nbytes()));
}

void fetch(const Members& members, std::span<const Slice> parts, const at::Tensor& out) {
  Targets to;
  std::byte* next = bytes_of(out);
  for (const Slice& part : parts) {
    to.push_back(next);
    next += part.size();
  }
  for (int i = 1; i < members.size; ++i) {
    const int m = (members.me + i) % members.size;  // no two read the same memory at once
    copy_bytes(to[m], members.at(m) + parts[m].begin, parts[m].size());
  }
}

Slice part_of(int member, std::span<const int64_t> bytes) {
  const int64_t begin = std::accumulate(bytes.begin(), bytes.begin() + member, int64_t{0});
  return {begin, begin + bytes[member]};
}

}  // namespace plait::wire
