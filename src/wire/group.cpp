#include "wire/group.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <numeric>

#include "base/errors.h"
#include "wire/contracts.h"

namespace plait::wire {
namespace {

class Alone final : public Group {
 public:
  explicit Alone(int world_rank) : ranks_{world_rank} {}

  int rank() const override { return 0; }
  const std::vector<int>& ranks() const override { return ranks_; }

  void all_reduce(std::span<const at::Tensor> values) override { check_all_reduce(values); }

  void all_gather(const at::Tensor& in, const at::Tensor& out) override {
    check_all_gather(in, out, 1);
    copy(in, out);
  }

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override {
    check_reduce_scatter(in, out, 1);
    copy(in, out);
  }

  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    check_all_gather_rows(in, out, rows, 0);
    copy(in, out);
  }

  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override {
    check_reduce_scatter_rows(in, out, rows, 0);
    copy(in, out);
  }

  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override {
    expects(send_rows.size() == 1 && receive_rows.size() == 1, "all_to_all: one count per member");
    check_all_to_all(in, out, send_rows, receive_rows);
    expects(send_rows[0] == receive_rows[0], "all_to_all: a group of one receives what it sends");
    copy(in, out);
  }

  void broadcast(const at::Tensor& value, int root) override { check_broadcast(value, root, 1); }
  void barrier() override {}

 private:
  static void copy(const at::Tensor& in, const at::Tensor& out) {
    if (in.numel() > 0 && in.data_ptr() != out.data_ptr()) std::memcpy(out.data_ptr(), in.data_ptr(), in.nbytes());
  }

  std::vector<int> ranks_;
};

}  // namespace

std::string_view name_of(Collective kind) { return name(kind); }

at::Tensor World::memory(int64_t bytes) { return at::empty({bytes}, at::kByte); }

std::shared_ptr<Group> everyone(World& world, int rank) {
  std::vector<int> all(static_cast<size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.group(rank, std::move(all));
}

std::shared_ptr<Group> alone(int world_rank) { return std::make_shared<Alone>(world_rank); }

}  // namespace plait::wire
