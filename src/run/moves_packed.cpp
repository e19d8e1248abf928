#include "run/moves_packed.h"

#include <cstring>
#include <numeric>

#include "base/errors.h"
#include "kernels/cpu/kernel.h"
#include "run/moves_rows.h"
#include "schedule/wire_bytes.h"

namespace plait {
namespace {

using Parts = std::vector<std::vector<Rows>>;  // by member: runs of elements of a local tensor

// One value of a message.
struct Parcel {
  Parts send, receive;
  std::vector<int64_t> shape;  // of the result
  int64_t own = 0;             // elements of it
};

int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Parcel dense_parcel(const StepTypes& types, size_t value, const std::vector<int>& members) {
  expects(types.in[value]->jagged_index() < 0, "rows without tables cannot move: lower the schedule");
  const Common c = common_boxes(types.mesh, types.rank, {types.in[value]->dims, types.out[value]->dims}, members);
  Parcel p{.shape = types.shape(*types.out[value]), .own = volume(c.to)};
  for (const Box& box : c.send) p.send.push_back(runs_of(box, c.from));
  for (const Box& box : c.receive) p.receive.push_back(runs_of(box, c.to));
  return p;
}

// Rows as elements of `width`.
std::vector<Rows> widened(std::vector<Rows> rows, int64_t width) {
  for (Rows& run : rows) run = {run.first * width, run.count * width};
  return rows;
}

Parcel row_parcel(const Call& call, size_t value, size_t values, const Common& cells) {
  const CellRows before = cells_before(call, value, values, cells), after = cells_after(call, value, values, cells);
  Parcel p{.shape = call.in(value).sizes().vec()};
  p.shape[0] = after.total();
  const int64_t width = product(call.in(value).sizes().slice(1));
  p.own = after.total() * width;
  for (const Box& box : cells.send) p.send.push_back(widened(before.of(box), width));
  for (const Box& box : cells.receive) p.receive.push_back(widened(after.of(box), width));
  return p;
}

// The bytes that each member's parts of all values take.
std::vector<int64_t> bytes_of(const Call& call, const std::vector<Parcel>& parcels, Parts Parcel::*side) {
  std::vector<int64_t> bytes((parcels[0].*side).size(), 0);
  for (size_t i = 0; i < parcels.size(); ++i)
    for (size_t m = 0; m < bytes.size(); ++m)
      bytes[m] += count((parcels[i].*side)[m]) * static_cast<int64_t>(call.in(i).element_size());
  return bytes;
}

int64_t total(const std::vector<int64_t>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

const char* memory(const at::Tensor& x) { return static_cast<const char*>(x.const_data_ptr()); }
char* memory_of(const at::Tensor& x) { return static_cast<char*>(x.mutable_data_ptr()); }

// Calls f(value, run) in the order of the message, a member's part of each value after the other.
void each_run(const std::vector<Parcel>& parcels, Parts Parcel::*side, auto&& f) {
  for (size_t m = 0; m < (parcels[0].*side).size(); ++m)
    for (size_t i = 0; i < parcels.size(); ++i)
      for (const Rows& run : (parcels[i].*side)[m]) f(i, run);
}

at::Tensor packed(Call& call, const std::vector<Parcel>& parcels, int64_t bytes) {
  const at::Tensor buffer = call.scratch({bytes}, at::kByte);
  char* to = memory_of(buffer);
  each_run(parcels, &Parcel::send, [&](size_t i, const Rows& run) {
    const auto item = static_cast<int64_t>(call.in(i).element_size());
    std::memcpy(to, memory(call.in(i)) + run.first * item, run.count * item);
    to += run.count * item;
  });
  return buffer;
}

void copy_out(const Call& call, const at::Tensor& buffer, const std::vector<Parcel>& parcels,
              const std::vector<at::Tensor>& results) {
  const char* from = memory(buffer);
  each_run(parcels, &Parcel::receive, [&](size_t i, const Rows& run) {
    const auto item = static_cast<int64_t>(call.in(i).element_size());
    std::memcpy(memory_of(results[i]) + run.first * item, from, run.count * item);
    from += run.count * item;
  });
}

// Parts that overlap are summed, in the order of the members.
void add_out(const at::Tensor& buffer, const std::vector<Parcel>& parcels, const std::vector<at::Tensor>& results) {
  for (const at::Tensor& y : results) y.zero_();
  kernels::by_element(results[0], [&]<class T>(T) {
    const T* from = static_cast<const T*>(buffer.const_data_ptr());
    each_run(parcels, &Parcel::receive, [&](size_t i, const Rows& run) {
      T* to = results[i].mutable_data_ptr<T>() + run.first;
      for (int64_t e = 0; e < run.count; ++e) to[e] += from[e];
      from += run.count;
    });
  });
}

std::vector<at::Tensor> results_of(Call& call, const std::vector<Parcel>& parcels) {
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < parcels.size(); ++i)
    results.push_back(call.make(i, parcels[i].shape, call.in(i).scalar_type()));
  return results;
}

void exchange(Call& call, const std::vector<Parcel>& parcels, wire::Group& group) {
  const std::vector<int64_t> send = bytes_of(call, parcels, &Parcel::send),
                             receive = bytes_of(call, parcels, &Parcel::receive);
  const at::Tensor in = packed(call, parcels, total(send)), buffer = call.scratch({total(receive)}, at::kByte);
  group.all_to_all(in, buffer, send, receive);
  const std::vector<at::Tensor> results = results_of(call, parcels);
  int64_t own = 0;
  for (const at::Tensor& y : results) own += static_cast<int64_t>(y.nbytes());
  own == total(receive) ? copy_out(call, buffer, parcels, results) : add_out(buffer, parcels, results);
}

void gather(Call& call, std::vector<Parcel> parcels, wire::Group& group) {
  for (size_t i = 0; i < parcels.size(); ++i)
    parcels[i].send = {{{0, call.in(i).numel()}}};  // all to all members alike
  const std::vector<int64_t> receive = bytes_of(call, parcels, &Parcel::receive);
  const at::Tensor in = packed(call, parcels, receive[group.rank()]),
                   buffer = call.scratch({total(receive)}, at::kByte);
  group.all_gather_rows(in, buffer, receive);
  copy_out(call, buffer, parcels, results_of(call, parcels));
}

// Sums as elements: all values of one type.
void scatter(Call& call, std::vector<Parcel> parcels, wire::Group& group) {
  const at::ScalarType dtype = call.in(0).scalar_type();
  std::vector<int64_t> send = bytes_of(call, parcels, &Parcel::send);
  const at::Tensor in = packed(call, parcels, total(send)).view(dtype);
  for (int64_t& n : send) n /= static_cast<int64_t>(call.in(0).element_size());
  const at::Tensor buffer = call.scratch({send[group.rank()]}, dtype);
  group.reduce_scatter_rows(in, buffer, send);
  for (Parcel& p : parcels) p.receive = {{{0, p.own}}};
  copy_out(call, buffer, parcels, results_of(call, parcels));
}

}  // namespace

Kernel prepare_packed_move(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group) {
  const Collective kind = collective(move.legs);
  const size_t values = types.out.size();
  const bool rows = types.in.size() > values;
  const std::vector<int> members = types.mesh.group(types.rank, wire_atoms(move.legs));
  std::vector<Parcel> fixed;
  std::vector<Common> cells;
  for (size_t i = 0; i < values; ++i) {
    if (rows)
      cells.push_back(common_cells(types, i, members));
    else
      fixed.push_back(dense_parcel(types, i, members));
  }
  return [=](Call& call) {
    std::vector<Parcel> parcels = fixed;
    for (size_t i = 0; i < cells.size(); ++i) parcels.push_back(row_parcel(call, i, values, cells[i]));
    if (kind == Collective::all_gather) return gather(call, std::move(parcels), *group);
    if (kind == Collective::reduce_scatter) return scatter(call, std::move(parcels), *group);
    exchange(call, parcels, *group);
  };
}

}  // namespace plait
