#include "run/message.h"

#include <cstring>
#include <numeric>

#include "base/errors.h"
#include "kernels/cpu/kernel.h"
#include "schedule/message_plan.h"

namespace plait {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;  // below which a second thread costs more than it brings

// A move made ready for a rank.
struct Ready {
  MessagePlan plan;
  std::vector<Parcel> fixed;                 // what does not depend on tables
  std::vector<std::vector<int64_t>> shapes;  // of the results; of rows without their number
  bool pads = false;
};

Pieces scaled(const Pieces& run, int64_t n) { return {run.first * n, run.count * n, run.times, run.stride * n}; }

// Calls f(place in the value, place in the message, length) for the pieces of a run that begins at `start` of the
// message; on several threads where it is long.
template <class F>
void each_piece(const Pieces& run, int64_t start, int64_t grain, F f) {
  if (run.times == 1)
    return at::parallel_for(0, run.count, grain,
                            [&](int64_t begin, int64_t end) { f(run.first + begin, start + begin, end - begin); });
  const int64_t pieces = std::max<int64_t>(1, grain / std::max<int64_t>(1, run.count));
  at::parallel_for(0, run.times, pieces, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(run.first + i * run.stride, start + i * run.count, run.count);
  });
}

const char* memory(const at::Tensor& x) { return static_cast<const char*>(x.const_data_ptr()); }
char* memory_of(const at::Tensor& x) { return static_cast<char*>(x.mutable_data_ptr()); }

// All of a value, in one dim.
at::Tensor flat(const at::Tensor& x, at::ScalarType type) { return x.view({-1}).view(type); }

// A message in one step of a run.
class Message {
 public:
  Message(Call& call, const Ready& move, std::span<const Parcel> parcels)
      : call_(call), move_(move), parcels_(parcels) {}

  // What stays on this rank: a part of a value, or a value among zeros.
  void keep(size_t value);
  void travel(wire::Group& group);

 private:
  int64_t unit_bytes(size_t value) const {
    return move_.plan.cuts[value].width * static_cast<int64_t>(call_.in(value).element_size());
  }
  std::vector<int64_t> result_shape(size_t value) const;
  at::Tensor make(size_t value) { return call_.make(value, result_shape(value), call_.in(value).scalar_type()); }

  // Elements of `type` in the parts of all values, by member.
  std::vector<int64_t> counts(Side Parcel::*side, at::ScalarType type) const;
  at::Tensor buffer(Side Parcel::*side, at::ScalarType type);
  at::Tensor packed(at::ScalarType type);
  void pack(size_t value, const std::vector<Pieces>& part, char*& to) const;
  void unpack(size_t value, const std::vector<Pieces>& part, const char*& from, const at::Tensor& result) const;
  void add(size_t value, const std::vector<Pieces>& part, const char*& from, const at::Tensor& result) const;

  Call& call_;
  const Ready& move_;
  std::span<const Parcel> parcels_;
};

std::vector<int64_t> Message::result_shape(size_t value) const {
  std::vector<int64_t> shape = move_.shapes[value];
  if (move_.plan.cuts[value].rows) shape.insert(shape.begin(), parcels_[value].after);
  return shape;
}

std::vector<int64_t> Message::counts(Side Parcel::*side, at::ScalarType type) const {
  std::vector<int64_t> all((parcels_[0].*side).counts.size(), 0);
  for (size_t i = 0; i < parcels_.size(); ++i)
    for (size_t m = 0; m < all.size(); ++m) all[m] += (parcels_[i].*side).counts[m] * unit_bytes(i);
  for (int64_t& n : all) n /= static_cast<int64_t>(c10::elementSize(type));
  return all;
}

at::Tensor Message::buffer(Side Parcel::*side, at::ScalarType type) {
  int64_t bytes = 0;
  for (size_t i = 0; i < parcels_.size(); ++i) bytes += (parcels_[i].*side).total * unit_bytes(i);
  return call_.scratch({bytes / static_cast<int64_t>(c10::elementSize(type))}, type);
}

void Message::pack(size_t value, const std::vector<Pieces>& part, char*& to) const {
  const char* from = memory(call_.in(value));
  for (const Pieces& units : part) {
    const Pieces run = scaled(units, unit_bytes(value));
    each_piece(run, 0, kGrainBytes, [=](int64_t in, int64_t out, int64_t n) { std::memcpy(to + out, from + in, n); });
    to += run.total();
  }
}

void Message::unpack(size_t value, const std::vector<Pieces>& part, const char*& from, const at::Tensor& result) const {
  char* to = memory_of(result);
  for (const Pieces& units : part) {
    const Pieces run = scaled(units, unit_bytes(value));
    each_piece(run, 0, kGrainBytes, [=](int64_t out, int64_t in, int64_t n) { std::memcpy(to + out, from + in, n); });
    from += run.total();
  }
}

void Message::add(size_t value, const std::vector<Pieces>& part, const char*& from, const at::Tensor& result) const {
  kernels::by_element(result, [&]<class T>(T) {
    T* to = result.mutable_data_ptr<T>();
    for (const Pieces& units : part) {
      const Pieces run = scaled(units, move_.plan.cuts[value].width);
      const T* x = reinterpret_cast<const T*>(from);
      each_piece(run, 0, kernels::kGrain, [=](int64_t out, int64_t in, int64_t n) {
        for (int64_t e = 0; e < n; ++e) to[out + e] += x[in + e];
      });
      from += run.total() * static_cast<int64_t>(sizeof(T));
    }
  });
}

at::Tensor Message::packed(at::ScalarType type) {
  if (direct(parcels_, &Parcel::send)) return flat(call_.in(0), type);
  const at::Tensor all = buffer(&Parcel::send, type);
  char* to = memory_of(all);
  for (size_t m = 0; m < parcels_[0].send.parts.size(); ++m)
    for (size_t i = 0; i < parcels_.size(); ++i) pack(i, parcels_[i].send.parts[m], to);
  return all;
}

void Message::keep(size_t value) {
  const Parcel& p = parcels_[value];
  const std::vector<Pieces>& part = p.send.parts[0];
  if (!move_.pads && part.size() == 1 && part[0].times == 1) {
    const int64_t width = move_.plan.cuts[value].width;
    const at::Tensor elements = call_.in(value).view({-1}).narrow(0, part[0].first * width, part[0].count * width);
    return call_.alias(value, value, elements.view(result_shape(value)));
  }
  const at::Tensor result = make(value);
  if (!move_.pads) {
    char* to = memory_of(result);
    return pack(value, part, to);
  }
  if (p.leaves_gaps()) result.zero_();
  const char* from = memory(call_.in(value));
  unpack(value, p.receive.parts[0], from, result);
}

void Message::travel(wire::Group& group) {
  const Collective kind = move_.plan.collective;
  const at::ScalarType type = kind == Collective::reduce_scatter ? call_.in(0).scalar_type() : at::kByte;
  const at::Tensor in = packed(type);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < parcels_.size(); ++i) results.push_back(make(i));
  const bool straight = direct(parcels_, &Parcel::receive);
  const at::Tensor out = straight ? flat(results[0], type) : buffer(&Parcel::receive, type);
  if (kind == Collective::all_gather)
    group.all_gather_rows(in, out, counts(&Parcel::receive, type));
  else if (kind == Collective::reduce_scatter)
    group.reduce_scatter_rows(in, out, counts(&Parcel::send, type));
  else
    group.all_to_all(in, out, counts(&Parcel::send, type), counts(&Parcel::receive, type));
  if (straight) return;
  const char* from = memory(out);
  for (size_t i = 0; i < parcels_.size(); ++i)
    if (parcels_[i].adds()) results[i].zero_();
  for (size_t m = 0; m < parcels_[0].receive.parts.size(); ++m)
    for (size_t i = 0; i < parcels_.size(); ++i) {
      const std::vector<Pieces>& part = parcels_[i].receive.parts[m];
      parcels_[i].adds() ? add(i, part, from, results[i]) : unpack(i, part, from, results[i]);
    }
}

// The counts of rows in the tables that stand behind the values.
std::vector<CellCounts> tables_of(const Call& call, const MessagePlan& plan) {
  std::vector<CellCounts> tables;
  for (size_t at = plan.cuts.size(); at < call.num_in(); at += 2)
    tables.push_back({call.in(at).const_data_ptr<int64_t>(), call.in(at + 1).const_data_ptr<int64_t>()});
  return tables;
}

Ready ready(const Move& move, const StepTypes& types) {
  Ready r{.plan = message_plan({types.mesh, types.rank, move.legs, types.in, types.out}),
          .pads = kinds(move.legs).front() == MoveKind::pad};
  const bool lowered = types.in.size() > types.out.size();
  for (size_t i = 0; i < r.plan.cuts.size(); ++i) {
    expects(lowered || !r.plan.cuts[i].rows, "rows without tables cannot move: lower the schedule");
    std::vector<int64_t> shape = types.shape(*types.out[i]);
    if (lowered) shape.erase(shape.begin(), shape.begin() + types.out[i]->jagged_index() + 1);
    r.shapes.push_back(std::move(shape));
  }
  if (!lowered) r.fixed = parcels(r.plan, {});
  return r;
}

void perform(Call& call, const Ready& move, std::span<const Parcel> parcels, wire::Group* group) {
  for (size_t i = 0; i < parcels.size(); ++i)
    expects(!move.plan.cuts[i].rows || parcels[i].before == call.in(i).size(0), "rows and their table differ");
  Message message(call, move, parcels);
  if (group) return message.travel(*group);
  for (size_t i = 0; i < parcels.size(); ++i) message.keep(i);
}

}  // namespace

Kernel prepare_message(const Move& move, const StepTypes& types, std::shared_ptr<wire::Group> group) {
  return [move = ready(move, types), group](Call& call) {
    if (move.fixed.empty()) return perform(call, move, parcels(move.plan, tables_of(call, move.plan)), group.get());
    perform(call, move, move.fixed, group.get());
  };
}

}  // namespace plait
