#include "wire/record.h"

#include "wire/contracts.h"

namespace plait::wire {
namespace {

class Watched final : public Group {
 public:
  Watched(std::shared_ptr<Group> group, Watch watch) : group_(std::move(group)), watch_(std::move(watch)) {}

  int rank() const override { return group_->rank(); }
  const std::vector<int>& ranks() const override { return group_->ranks(); }

  void all_reduce(std::span<const at::Tensor> values) override {
    double bytes = 0;
    for (const auto& value : values) bytes += value.nbytes();
    const double sent = 2 * shared_part(bytes);
    group_->all_reduce(values);
    watch_(Collective::all_reduce, sent);
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out) override {
    const double sent = shared_part(out.nbytes());
    group_->all_gather(in, out);
    watch_(Collective::all_gather, sent);
  }

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override {
    const double sent = shared_part(in.nbytes());
    group_->reduce_scatter(in, out);
    watch_(Collective::reduce_scatter, sent);
  }

  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    const double sent = static_cast<double>(out.nbytes() - in.nbytes());
    group_->all_gather_rows(in, out, rows);
    watch_(Collective::all_gather, sent);
  }

  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    const double sent = static_cast<double>(in.nbytes() - out.nbytes());
    group_->reduce_scatter_rows(in, out, rows);
    watch_(Collective::reduce_scatter, sent);
  }

  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override {
    const int64_t leaving = in.size(0) - send_rows[rank()];
    const double sent = static_cast<double>(leaving * row_bytes(in));
    group_->all_to_all(in, out, send_rows, receive_rows);
    watch_(Collective::all_to_all, sent);
  }

  void broadcast(const at::Tensor& value, int root) override {
    const double sent = shared_part(value.nbytes());
    group_->broadcast(value, root);
    watch_(Collective::broadcast, sent);
  }

  void barrier() override {
    const double sent = 0;
    group_->barrier();
    watch_(Collective::barrier, sent);
  }

 private:
  double shared_part(double bytes) const { return bytes * (size() - 1) / size(); }

  std::shared_ptr<Group> group_;
  Watch watch_;
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

std::shared_ptr<Group> watched(std::shared_ptr<Group> group, Watch watch) {
  if (group->size() == 1) return group;
  return std::make_shared<Watched>(std::move(group), std::move(watch));
}

std::shared_ptr<Group> record(std::shared_ptr<Group> group, std::shared_ptr<Traffic> traffic) {
  return watched(std::move(group), [traffic](Collective kind, double bytes) {
    (*traffic)[kind].calls += 1;
    (*traffic)[kind].bytes += bytes;
  });
}

}  // namespace plait::wire
