#include "wire/local.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "wire/contracts.h"
#include "wire/stream.h"
#include "wire/sum.h"

namespace plait::wire {
namespace {

int64_t type_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.scalar_type()); }

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int member, LaneBoard& lane)
      : meeting_(std::move(meeting)), member_(member), lane_(lane), text_(ranks_text(ranks())) {}

  int rank() const override { return member_; }
  const std::vector<int>& ranks() const override { return meeting_->ranks(); }

  void all_reduce(std::span<const at::Tensor> values) override;
  void all_gather(const at::Tensor& in, const at::Tensor& out) override;
  void reduce_scatter(const at::Tensor& in, const at::Tensor& out) override;
  void all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) override;
  void all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                  std::span<const int64_t> receive_rows) override;
  void broadcast(const at::Tensor& value, int root) override;

  void barrier() override {
    meeting_->open(member_, Collective::barrier);
    begin();
  }

 private:
  const Post& post(int member) const { return meeting_->post(member_, member); }

  void begin() {
    const Post& mine = post(member_);
    lane_.begin_collective(text_, {mine.kind, meeting_->sequence(member_), mine.bytes});
    meeting_->begin(member_);
    lane_.end_collective();
  }

  // Adds a value to the post: where it lies, or a copy of it when the whole post is eager.
  void bring(Post& post, const at::Tensor& value) const {
    const int64_t bytes = value.nbytes();
    std::byte* memory = bytes_of(value);
    if (post.eager) {
      copy_bytes(post.copy.get() + post.extent, memory, bytes);
      memory = post.copy.get() + post.extent;
    }
    post.values.push_back(memory);
    post.shape.push_back(bytes);
    post.shape.push_back(type_of(value));
    post.bytes += bytes;
    post.extent += padded(bytes);
  }

  // The same place in all members' memory, in the order of the members.
  void gather_sources(size_t value, int64_t offset) {
    sources_.clear();
    for (int m = 0; m < size(); ++m) sources_.push_back(post(m).values[value] + offset);
  }

  void sum_copies(std::span<const at::Tensor> values);
  void sum_my_slice(std::span<const at::Tensor> values);

  std::shared_ptr<Meeting> meeting_;
  int member_;
  LaneBoard& lane_;
  std::string text_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;
};

void LocalGroup::all_reduce(std::span<const at::Tensor> values) {
  check_all_reduce(values);
  int64_t extent = 0;
  for (const auto& value : values) extent += padded(value.nbytes());
  Post& mine = meeting_->open(member_, Collective::all_reduce);
  mine.eager = extent <= kEagerBytes;
  for (const auto& value : values) bring(mine, value);
  begin();
  if (mine.eager) return sum_copies(values);
  sum_my_slice(values);
  meeting_->end(member_);
}

// Every member sums everything, in the same order.
void LocalGroup::sum_copies(std::span<const at::Tensor> values) {
  for (size_t v = 0; v < values.size(); ++v) {
    gather_sources(v, 0);
    std::byte* target = bytes_of(values[v]);
    sum_into(values[v].scalar_type(), sources_, {&target, 1}, values[v].nbytes());
  }
}

// Reduce-scatter and all-gather in one pass: the owner of a slice sums it and writes it into every member's memory.
void LocalGroup::sum_my_slice(std::span<const at::Tensor> values) {
  const Slice mine = slice(post(member_).extent, member_, size());
  int64_t start = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    const int64_t bytes = values[v].nbytes();
    const int64_t begin = std::clamp<int64_t>(mine.begin - start, 0, bytes);
    const int64_t end = std::clamp<int64_t>(mine.end - start, 0, bytes);
    start += padded(bytes);
    if (begin == end) continue;
    gather_sources(v, begin);
    targets_.clear();
    for (const auto* source : sources_) targets_.push_back(const_cast<std::byte*>(source));
    sum_into(values[v].scalar_type(), sources_, targets_, end - begin);
  }
}

void LocalGroup::all_gather(const at::Tensor& in, const at::Tensor& out) {
  check_all_gather(in, out, size());
  const int64_t bytes = in.nbytes();
  Post& mine = meeting_->open(member_, Collective::all_gather);
  mine.eager = bytes <= kEagerBytes;
  bring(mine, in);
  begin();
  for (int i = 0; i < size(); ++i) {
    const int m = (member_ + i) % size();  // own part first, while it is warm; then no two read the same memory
    copy_bytes(bytes_of(out) + m * bytes, m == member_ ? bytes_of(in) : post(m).values[0], bytes);
  }
  if (!mine.eager) meeting_->end(member_);
}

void LocalGroup::reduce_scatter(const at::Tensor& in, const at::Tensor& out) {
  check_reduce_scatter(in, out, size());
  Post& mine = meeting_->open(member_, Collective::reduce_scatter);
  mine.eager = static_cast<int64_t>(in.nbytes()) <= kEagerBytes;
  bring(mine, in);
  begin();
  const int64_t bytes = out.nbytes();
  gather_sources(0, member_ * bytes);
  std::byte* target = bytes_of(out);
  sum_into(out.scalar_type(), sources_, {&target, 1}, bytes);
  if (!mine.eager) meeting_->end(member_);
}

void LocalGroup::all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "all_gather_rows: one count per member");
  check_all_gather_rows(in, out, rows, member_);
  Post& mine = meeting_->open(member_, Collective::all_gather);
  mine.eager = static_cast<int64_t>(in.nbytes()) <= kEagerBytes;
  bring(mine, in);
  const int64_t row = row_bytes(in);
  mine.shape = {row, type_of(in)};
  mine.shape.insert(mine.shape.end(), rows.begin(), rows.end());
  begin();
  bool all_eager = true;
  std::byte* to = bytes_of(out);
  for (int m = 0; m < size(); ++m) {
    copy_bytes(to, m == member_ ? bytes_of(in) : post(m).values[0], rows[m] * row);
    to += rows[m] * row;
    all_eager = all_eager && post(m).eager;
  }
  if (!all_eager) meeting_->end(member_);
}

void LocalGroup::reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "reduce_scatter_rows: one count per member");
  check_reduce_scatter_rows(in, out, rows, member_);
  Post& mine = meeting_->open(member_, Collective::reduce_scatter);
  mine.eager = static_cast<int64_t>(in.nbytes()) <= kEagerBytes;
  bring(mine, in);
  mine.shape.insert(mine.shape.end(), rows.begin(), rows.end());
  begin();
  gather_sources(0, std::accumulate(rows.begin(), rows.begin() + member_, int64_t{0}) * row_bytes(in));
  std::byte* target = bytes_of(out);
  sum_into(out.scalar_type(), sources_, {&target, 1}, out.nbytes());
  if (!mine.eager) meeting_->end(member_);
}

void LocalGroup::all_to_all(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> send_rows,
                            std::span<const int64_t> receive_rows) {
  expects(static_cast<int>(send_rows.size()) == size() && static_cast<int>(receive_rows.size()) == size(),
          "all_to_all: one count per member");
  check_all_to_all(in, out, send_rows, receive_rows);
  Post& mine = meeting_->open(member_, Collective::all_to_all);
  mine.eager = static_cast<int64_t>(in.nbytes()) <= kEagerBytes;
  bring(mine, in);
  const int64_t row = row_bytes(in);
  mine.shape = {row, type_of(in)};
  mine.send_rows.assign(send_rows.begin(), send_rows.end());
  mine.receive_rows.assign(receive_rows.begin(), receive_rows.end());
  begin();
  bool all_eager = true;
  std::byte* to = bytes_of(out);
  for (int m = 0; m < size(); ++m) {
    const Post& theirs = post(m);
    const auto before = theirs.send_rows.begin();
    const int64_t skipped = std::accumulate(before, before + member_, int64_t{0});
    copy_bytes(to, theirs.values[0] + skipped * row, receive_rows[m] * row);
    to += receive_rows[m] * row;
    all_eager = all_eager && theirs.eager;
  }
  if (!all_eager) meeting_->end(member_);
}

void LocalGroup::broadcast(const at::Tensor& value, int root) {
  check_broadcast(value, root, size());
  Post& mine = meeting_->open(member_, Collective::broadcast);
  mine.eager = static_cast<int64_t>(value.nbytes()) <= kEagerBytes;
  bring(mine, value);
  mine.shape.push_back(root);
  begin();
  if (member_ != root) copy_bytes(bytes_of(value), post(root).values[0], value.nbytes());
  if (!mine.eager) meeting_->end(member_);
}

}  // namespace

LocalWorld::LocalWorld(LocalOptions options)
    : options_(std::move(options)), boards_(options_.ranks), copies_(options_.ranks) {
  expects(options_.ranks >= 1 && options_.threads >= 1, "a world has at least one rank and a rank one thread");
  for (int rank = 0; rank < size(); ++rank) boards_[rank].name.set(name(rank));
}

std::string LocalWorld::report() const {
  std::vector<const RankBoard*> boards;
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    boards.push_back(&boards_[rank]);
    ranks.push_back(rank);
  }
  return wire::report(boards, ranks);
}

std::string LocalWorld::name(int rank) const {
  return options_.name ? options_.name(rank) : fmt::format("rank {}", rank);
}

std::shared_ptr<Group> LocalWorld::group(int rank, std::vector<int> members, int lane) {
  const auto place = std::find(members.begin(), members.end(), rank);
  expects(place != members.end(), "a rank builds only groups it is a member of");
  if (members.size() == 1) return alone(rank);
  const int member = static_cast<int>(place - members.begin());
  const std::lock_guard lock(mutex_);
  const int copy = copies_[rank][members]++;
  return std::make_shared<LocalGroup>(meeting({.members = std::move(members), .copy = copy}), member,
                                      boards_[rank].lanes[lane]);
}

std::shared_ptr<Meeting> LocalWorld::meeting(const Key& key) {
  auto& meeting = meetings_[key];
  if (!meeting) {
    meeting = std::make_shared<Meeting>(
        MeetingOptions{.ranks = key.members,
                       .timeout = options_.timeout,
                       .patience = patience_for(options_.ranks * (options_.threads + options_.lanes)),
                       .name = [this](int rank) { return name(rank); },
                       .elsewhere = [this](int rank) { return waiting(rank); }});
    if (failed_) meeting->fail();
  }
  return meeting;
}

void LocalWorld::fail() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
  for (auto& [key, meeting] : meetings_) meeting->fail();
}

std::string LocalWorld::waiting(int rank) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, meeting] : meetings_) {
    if (auto title = meeting->waiting(rank); !title.empty()) return title;
  }
  return {};
}

}  // namespace plait::wire
