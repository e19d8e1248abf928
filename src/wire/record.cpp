#include "wire/record.h"

#include "wire/contracts.h"

namespace plait::wire {
namespace {

class Recorded final : public Group {
 public:
  Recorded(std::shared_ptr<Group> group, std::shared_ptr<Traffic> traffic)
      : group_(std::move(group)), traffic_(std::move(traffic)) {}

  int rank() const override { return group_->rank(); }
  const std::vector<int>& ranks() const override { return group_->ranks(); }

  void all_reduce(std::span<const at::Tensor> values) override {
    double bytes = 0;
    for (const auto& value : values) bytes += value.nbytes();
    count(Collective::all_reduce, 2 * shared_part(bytes));
    group_->all_reduce(values);
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out) override {
    count(Collective::all_gather, shared_part(out.nbytes()));
    group_->all_gather(in, out);
  }

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override {
    count(Collective::reduce_scatter, shared_part(in.nbytes()));
    group_->reduce_scatter(in, out);
  }

  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    count(Collective::all_gather, static_cast<double>(out.nbytes() - in.nbytes()));
    group_->all_gather_rows(in, out, rows);
  }

  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    count(Collective::reduce_scatter, static_cast<double>(in.nbytes() - out.nbytes()));
    group_->reduce_scatter_rows(in, out, rows);
  }

  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override {
    const int64_t leaving = in.size(0) - send_rows[rank()];
    count(Collective::all_to_all, static_cast<double>(leaving * row_bytes(in)));
    group_->all_to_all(in, out, send_rows, receive_rows);
  }

  void broadcast(const at::Tensor& value, int root) override {
    count(Collective::broadcast, shared_part(value.nbytes()));
    group_->broadcast(value, root);
  }

  void barrier() override {
    count(Collective::barrier, 0);
    group_->barrier();
  }

 private:
  double shared_part(double bytes) const { return bytes * (size() - 1) / size(); }

  void count(Collective kind, double bytes) {
    auto& count = (*traffic_)[kind];
    count.calls += 1;
    count.bytes += bytes;
  }

  std::shared_ptr<Group> group_;
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace

Traffic::Count Traffic::total() const {
  Count sum;
  for (const auto& count : kinds) {
    sum.calls += count.calls;
    sum.bytes += count.bytes;
  }
  return sum;
}

std::shared_ptr<Group> record(std::shared_ptr<Group> group, std::shared_ptr<Traffic> traffic) {
  if (group->size() == 1) return group;
  return std::make_shared<Recorded>(std::move(group), std::move(traffic));
}

}  // namespace plait::wire
