#include "wire/local/world.h"

#include <algorithm>
#include <thread>

#include "wire/contracts.h"
#include "wire/direct.h"

namespace plait::wire {
namespace {

int64_t type_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.scalar_type()); }

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Meeting> meeting, int member, LaneBoard& lane)
      : meeting_(std::move(meeting)), member_(member), lane_(lane), text_(launch::ranks_text(ranks())) {}

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
    const auto bytes = static_cast<int64_t>(value.nbytes());
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

  // What all have brought, once all have come.
  const Members& members() {
    members_.me = member_;
    members_.size = size();
    members_.begin.clear();
    for (int m = 0; m < size(); ++m)
      members_.begin.insert(members_.begin.end(), post(m).values.begin(), post(m).values.end());
    return members_;
  }

  // Stays until nobody reads or writes another's memory any more.
  void end() {
    for (int m = 0; m < size(); ++m)
      if (!post(m).eager) return meeting_->end(member_);
  }

  // bytes[m] of member m, one after another in `out`. `shape`: what must be equal at all members.
  void gather(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> bytes, std::vector<int64_t> shape);
  // bytes[m] of `in` belong to member m.
  void scatter(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> bytes);

  std::shared_ptr<Meeting> meeting_;
  int member_;
  LaneBoard& lane_;
  std::string text_;
  Members members_;
};

void LocalGroup::all_reduce(std::span<const at::Tensor> values) {
  check_all_reduce(values);
  const Stream stream(values);
  Post& mine = meeting_->open(member_, Collective::all_reduce);
  mine.eager = stream.extent() <= kEagerBytes;
  for (const auto& value : values) bring(mine, value);
  begin();
  if (mine.eager) return sum_all(members(), stream);
  sum_own_slice(members(), stream);
  end();
}

void LocalGroup::gather(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> bytes,
                        std::vector<int64_t> shape) {
  const auto own = static_cast<int64_t>(in.nbytes());
  Post& mine = meeting_->open(member_, Collective::all_gather);
  mine.eager = own <= kEagerBytes;
  bring(mine, in);
  mine.shape = std::move(shape);
  copy_bytes(bytes_of(out) + part_of(member_, bytes).begin, bytes_of(in), own);
  Slices parts;
  for (const int64_t b : bytes) parts.push_back({0, b});
  begin();
  fetch(members(), parts, out);
  end();
}

void LocalGroup::scatter(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> bytes) {
  Post& mine = meeting_->open(member_, Collective::reduce_scatter);
  mine.eager = static_cast<int64_t>(in.nbytes()) <= kEagerBytes;
  bring(mine, in);
  mine.shape.insert(mine.shape.end(), bytes.begin(), bytes.end());
  begin();
  sum_part(members(), part_of(member_, bytes).begin, out);
  end();
}

void LocalGroup::all_gather(const at::Tensor& in, const at::Tensor& out) {
  check_all_gather(in, out, size());
  const auto bytes = static_cast<int64_t>(in.nbytes());
  gather(in, out, std::vector<int64_t>(size(), bytes), {bytes, type_of(in)});
}

void LocalGroup::reduce_scatter(const at::Tensor& in, const at::Tensor& out) {
  check_reduce_scatter(in, out, size());
  scatter(in, out, std::vector<int64_t>(size(), out.nbytes()));
}

void LocalGroup::all_gather_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "all_gather_rows: one count per member");
  check_all_gather_rows(in, out, rows, member_);
  std::vector<int64_t> shape = {row_bytes(in), type_of(in)};
  shape.insert(shape.end(), rows.begin(), rows.end());
  gather(in, out, bytes_of_rows(rows, row_bytes(in)), std::move(shape));
}

void LocalGroup::reduce_scatter_rows(const at::Tensor& in, const at::Tensor& out, std::span<const int64_t> rows) {
  expects(static_cast<int>(rows.size()) == size(), "reduce_scatter_rows: one count per member");
  check_reduce_scatter_rows(in, out, rows, member_);
  scatter(in, out, bytes_of_rows(rows, row_bytes(in)));
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
  Slices parts;
  for (int m = 0; m < size(); ++m) {
    const Slice rows = part_of(member_, post(m).send_rows);
    parts.push_back({rows.begin * row, rows.end * row});
  }
  const int64_t to = part_of(member_, receive_rows).begin * row;
  copy_bytes(bytes_of(out) + to, bytes_of(in) + parts[member_].begin, parts[member_].size());
  fetch(members(), parts, out);
  end();
}

void LocalGroup::broadcast(const at::Tensor& value, int root) {
  check_broadcast(value, root, size());
  Post& mine = meeting_->open(member_, Collective::broadcast);
  mine.eager = static_cast<int64_t>(value.nbytes()) <= kEagerBytes;
  bring(mine, value);
  mine.shape.push_back(root);
  begin();
  if (member_ != root) copy_bytes(bytes_of(value), post(root).values[0], value.nbytes());
  end();
}

}  // namespace

LocalWorld::LocalWorld(RankOptions options)
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
  return launch::report(boards, ranks);
}

std::shared_ptr<Group> LocalWorld::group(int rank, std::vector<int> members, Caller caller) {
  const auto place = std::find(members.begin(), members.end(), rank);
  expects(place != members.end(), "a rank builds only groups it is a member of");
  if (members.size() == 1) return alone(rank);
  const int member = static_cast<int>(place - members.begin());
  const std::lock_guard lock(mutex_);
  const int copy = copies_[rank][members]++;
  return std::make_shared<LocalGroup>(meeting({.members = std::move(members), .copy = copy}, caller), member,
                                      boards_[rank].lanes[caller.lane]);
}

std::shared_ptr<Meeting> LocalWorld::meeting(const Key& key, Caller caller) {
  if (const auto found = meetings_.find(key); found != meetings_.end()) return found->second;
  const auto meeting = std::make_shared<Meeting>(
      MeetingOptions{.ranks = key.members,
                     .timeout = options_.timeout,
                     .patience = launch::patience_for(options_.ranks * (options_.threads + caller.lanes), cores_),
                     .name = [this](int rank) { return name(rank); },
                     .elsewhere = [this](int rank) { return waiting(rank); }});
  meetings_.emplace(key, meeting);
  if (failed_) meeting->fail();
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
