#include "wire/testing/placed.h"

#include <ATen/ops/from_blob.h>

#include "base/random.h"

namespace plait::wire {
namespace {

constexpr size_t kMost = size_t{1} << 28;  // bytes that are copied for a test

class Placed final : public Group {
 public:
  Placed(std::shared_ptr<Group> group, World& world, Placing placing)
      : group_(std::move(group)), world_(world), placing_(placing) {}

  int rank() const override { return group_->rank(); }
  const std::vector<int>& ranks() const override { return group_->ranks(); }

  void all_reduce(std::span<const at::Tensor> values) override {
    std::vector<at::Tensor> there;
    for (const at::Tensor& value : values) there.push_back(brought(value));
    group_->all_reduce(there);
    for (size_t v = 0; v < values.size(); ++v) values[v].copy_(there[v]);
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out) override {
    within(in, out, [&](const at::Tensor& part, const at::Tensor& whole) { group_->all_gather(part, whole); });
    out.copy_(whole_);
  }

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override {
    within(out, in, [&](const at::Tensor& part, const at::Tensor& whole) { group_->reduce_scatter(whole, part); });
    out.copy_(part_);
  }

  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    within(in, out,
           [&](const at::Tensor& part, const at::Tensor& whole) { group_->all_gather_rows(part, whole, rows); });
    out.copy_(whole_);
  }

  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    within(out, in,
           [&](const at::Tensor& part, const at::Tensor& whole) { group_->reduce_scatter_rows(whole, part, rows); });
    out.copy_(part_);
  }

  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override {
    const at::Tensor there = brought(out);
    group_->all_to_all(brought(in), there, send_rows, receive_rows);
    if (!there.is_same(out)) out.copy_(there);
  }

  void broadcast(const at::Tensor& value, int root) override {
    const at::Tensor there = brought(value);
    group_->broadcast(there, root);
    value.copy_(there);
  }

  void barrier() override { group_->barrier(); }

 private:
  at::Tensor brought(const at::Tensor& x) {
    const bool stays = placing_ == Placing::some && hash64(call_++, rank()) % 2 == 0;
    if (stays || x.numel() == 0 || x.nbytes() > kMost) return x;
    const at::Tensor there = world_.memory(static_cast<int64_t>(x.nbytes())).view(x.scalar_type()).view(x.sizes());
    return there.copy_(x);
  }

  // A part that lies in the whole lies at the same place of it there.
  template <class Call>
  void within(const at::Tensor& part, const at::Tensor& whole, Call call) {
    whole_ = brought(whole);
    const auto* begin = static_cast<const std::byte*>(whole.const_data_ptr());
    const int64_t offset = static_cast<const std::byte*>(part.const_data_ptr()) - begin;
    const bool inside = offset >= 0 && offset < static_cast<int64_t>(whole.nbytes());
    auto* there = static_cast<std::byte*>(whole_.mutable_data_ptr());
    part_ = inside ? at::from_blob(there + offset, part.sizes(), part.options()) : brought(part);
    call(part_, whole_);
  }

  std::shared_ptr<Group> group_;
  World& world_;
  Placing placing_;
  uint64_t call_ = 0;
  at::Tensor part_, whole_;  // of the last call
};

}  // namespace

std::shared_ptr<Group> placed(std::shared_ptr<Group> group, World& world, Placing placing) {
  return std::make_shared<Placed>(std::move(group), world, placing);
}

}  // namespace plait::wire
