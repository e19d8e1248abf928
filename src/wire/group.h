// A group of ranks and the collectives its members call together: the only door through which values cross ranks.
// Every member calls the same collectives in the same order, from the same lane. Tensors are contiguous and on the CPU.
// A group of one never communicates. Errors of the wire are CommError; wrong shapes are ContractError.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "schedule/collective.h"

namespace plait::wire {

using plait::Collective;
std::string_view name_of(Collective kind);

class Group {
 public:
  virtual ~Group() = default;

  // This member's place in the group; `ranks()[rank()]` is its rank in the world.
  virtual int rank() const = 0;
  virtual const std::vector<int>& ranks() const = 0;
  int size() const { return static_cast<int>(ranks().size()); }

  // In place, all values in one message, float32, float64 or int64 (they may be mixed). Summed in the order of the
  // group's members by whoever owns the slice, so every member ends with the same bits.
  virtual void all_reduce(std::span<const at::Tensor> values) = 0;

  // in [x...] -> out [size, x...]. `in` may be the member's own part of `out`.
  virtual void all_gather(const at::Tensor& in, const at::Tensor& out) = 0;

  // in [size, x...] -> out [x...], summed in the order of the members. `out` may be the member's own part of `in`.
  virtual void reduce_scatter(const at::Tensor& in, const at::Tensor& out) = 0;

  // The same for rows (slices along dim 0) of uneven number: rows[q] from member q; in [rows[rank()], x...] ->
  // out [sum of rows, x...]. All members give the same rows.
  virtual void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) = 0;

  // in [sum of rows, x...], the same rows for all members, by owner -> out [rows[rank()], x...], summed in order.
  virtual void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) = 0;

  // Rows are slices along dim 0: `in` holds them by destination, `out` receives them by source. Counts may differ and
  // be zero; receive_rows[q] here is send_rows[this member] at q. Memory of `in` and `out` is disjoint.
  virtual void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                          std::span<const int64_t> receive_rows) = 0;

  // In place, from the member with place `root`.
  virtual void broadcast(const at::Tensor& value, int root) = 0;

  virtual void barrier() = 0;
};

// Another rank failed, so this one cannot go on: the consequence of a failure, never its cause.
struct Abandoned : CommError {
  using CommError::CommError;
};

struct RankBoard;

// The thread that will call a group: a rank's own, or one of its lanes.
struct Caller {
  int lane = 0;   // for reports
  int lanes = 0;  // threads of each rank that only send meanwhile: with more threads than cores nobody waits awake
};

// The world a rank lives in: hands out groups. Members that build a group of the same ranks several times get as many
// groups, matched in the order of the calls; every member must make the same calls. A list of one gives `alone`.
class World {
 public:
  virtual ~World() = default;
  virtual int size() const = 0;
  virtual std::shared_ptr<Group> group(int rank, std::vector<int> members, Caller caller = {}) = 0;
  // Fresh bytes of this process, aligned to 64. Between processes of a node large messages are fastest whose tensors
  // lie in such memory at all members.
  virtual at::Tensor memory(int64_t bytes);
  // Where a rank of this process tells what it does.
  virtual RankBoard& board(int rank) = 0;
  // Ends all waits of all groups: a rank has failed. Any thread.
  virtual void fail() = 0;
};

// The group of all ranks.
std::shared_ptr<Group> everyone(World& world, int rank);

// The group of one: every collective is a local copy or nothing.
std::shared_ptr<Group> alone(int world_rank);

}  // namespace plait::wire
