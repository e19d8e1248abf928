#include "wire/mpi/runtime.h"

#include <unistd.h>

#include <cstdlib>
#include <new>

#include "wire/node/group.h"

namespace plait::wire {
namespace {

std::byte* shared_memory(MPI_Comm comm, int64_t bytes) {
  int member = 0, unit = 0;
  MPI_Comm_rank(comm, &member);
  void* base = nullptr;
  MPI_Aint size = 0;
  MPI_Win window;
  mpi_check(MPI_Win_allocate_shared(member == 0 ? bytes : 0, 1, MPI_INFO_NULL, comm, &base, &window),
            "MPI_Win_allocate_shared");
  mpi_check(MPI_Win_shared_query(window, 0, &size, &unit, &base), "MPI_Win_shared_query");
  return static_cast<std::byte*>(base);
}

// Over TCP Open MPI by default lets the receiver ask for part after part of a large message, each time behind the data
// that goes the same way: an exchange then takes as long as its two directions one after the other. Sent whole it does
// not. What a person has set is kept.
void prefer_whole_messages() { setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0); }

}  // namespace

void mpi_check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("{}: {}", what, std::string_view(text, length)));
}

MpiRuntime& MpiRuntime::get() {
  static MpiRuntime runtime;
  return runtime;
}

MpiRuntime::MpiRuntime() {
  prefer_whole_messages();
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level_);
  std::atexit([] { MPI_Finalize(); });
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  int size = 0;
  MPI_Comm_rank(world_, &rank_);
  MPI_Comm_size(world_, &size);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  node_name_ = host;
  MPI_Comm node;
  mpi_check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int least = 0;
  mpi_check(MPI_Allreduce(&rank_, &least, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  node_of_.resize(size);
  mpi_check(MPI_Allgather(&least, 1, MPI_INT, node_of_.data(), 1, MPI_INT, world_), "MPI_Allgather");
  for (int r = 0; r < size; ++r)
    if (node_of_[r] == least) neighbours_.push_back(r);
  share_boards(node);
  if (neighbours_.size() > 1) share_memory(node);
}

void MpiRuntime::share_boards(MPI_Comm node) {
  const auto n = static_cast<int64_t>(neighbours_.size());
  std::byte* memory = shared_memory(node, 64 + n * static_cast<int64_t>(sizeof(RankBoard)));
  if (rank_ == neighbours_.front()) new (memory) std::atomic<int>(0);
  reported_ = reinterpret_cast<std::atomic<int>*>(memory);
  boards_ = memory + 64;
  new (&board(rank_)) RankBoard{};
  mpi_check(MPI_Barrier(node), "MPI_Barrier");
}

// All ranks of the node, or none.
void MpiRuntime::share_memory(MPI_Comm node) {
  const int n = static_cast<int>(neighbours_.size());
  memory_ = NodeMemory::make(NodeMemory::generous_bytes(n));
  const NodeMemory::Address own = memory_ ? memory_->address() : NodeMemory::Address{};
  std::vector<NodeMemory::Address> all(n);
  mpi_check(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, node), "MPI_Allgather");
  int mine = memory_ ? 1 : 0, everybodys = 0;
  for (int i = 0; i < n; ++i) {
    if (neighbours_[i] != rank_)
      reached_.push_back(NodeMemory::reach(all[i]));
    else
      reached_.emplace_back();
    if (neighbours_[i] != rank_ && !reached_.back().memory()) mine = 0;
  }
  mpi_check(MPI_Allreduce(&mine, &everybodys, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  if (everybodys == 1) return;
  memory_.reset();
  reached_.clear();
}

std::byte* MpiRuntime::memory_of(int rank) const {
  return rank == rank_ ? memory_->memory() : reached_[place_of(rank)].memory();
}

size_t MpiRuntime::place_of(int rank) const {
  const auto at = std::ranges::find(neighbours_, rank);
  expects(at != neighbours_.end(), "memory of a rank of another node");
  return static_cast<size_t>(at - neighbours_.begin());
}

RankBoard& MpiRuntime::board(int rank) const { return reinterpret_cast<RankBoard*>(boards_)[place_of(rank)]; }

void MpiRuntime::make(Channel& channel, const std::vector<int>& members, Share share) {
  MPI_Group all, group;
  MPI_Comm_group(world_, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &group);
  mpi_check(MPI_Comm_create_group(world_, group, 0, &channel.comm), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  MPI_Comm_set_errhandler(channel.comm, MPI_ERRORS_RETURN);
  const bool one_node = std::ranges::all_of(members, [&](int r) { return node_of_[r] == node_of_[members[0]]; });
  if (!one_node || share == Share::nothing) return;
  const int n = static_cast<int>(members.size());
  channel.memory = shared_memory(channel.comm, node_group_bytes(n));
  if (members[0] == rank_) prepare_node_group(channel.memory, n);
  mpi_check(MPI_Barrier(channel.comm), "MPI_Barrier");
}

std::shared_ptr<MpiRuntime::Channel> MpiRuntime::channel(const std::vector<int>& members, Share share) {
  auto& all = channels_[{members, share}];
  Channel* found = nullptr;
  for (const auto& channel : all)
    if (!found && !channel->taken) found = channel.get();
  if (!found) {
    all.push_back(std::make_unique<Channel>());
    found = all.back().get();
    make(*found, members, share);
  }
  found->taken = true;
  return {found, [](Channel* channel) { channel->taken = false; }};
}

}  // namespace plait::wire
