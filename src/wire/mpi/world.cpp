#include "wire/mpi/world.h"

#include <algorithm>

#include "base/errors.h"
#include "wire/mpi/group.h"
#include "wire/node/group.h"

namespace plait::wire {

at::Tensor MpiWorld::memory(int64_t bytes) { return mpi_.memory() ? mpi_.memory()->take(bytes) : own_memory(bytes); }

std::shared_ptr<Group> MpiWorld::group(int rank, std::vector<int> members, Caller caller) {
  const auto place = std::ranges::find(members, rank);
  expects(rank == mpi_.rank() && place != members.end(), "a rank builds only groups it is a member of");
  if (members.size() == 1) return alone(rank);
  const int member = static_cast<int>(place - members.begin());
  LaneBoard& board = mpi_.board(rank).lanes[caller.lane];
  board.begin_step(std::string(launch::kConnecting) + launch::ranks_text(members));
  const auto apart = [&](int r) { return options_.node > 0 && r / options_.node != rank / options_.node; };
  const bool share = std::ranges::none_of(members, apart);
  auto channel = mpi_.channel(members, share ? MpiRuntime::Share::memory : MpiRuntime::Share::nothing);
  board.end_step();
  const int here = static_cast<int>(mpi_.neighbours().size());
  MemberOptions options{.ranks = std::move(members),
                        .member = member,
                        .timeout = options_.timeout,
                        .patience = launch::patience_for(here * (options_.threads + caller.lanes), cores_),
                        .name = [this](int r) { return options_.name_of(r); },
                        .lane = &board,
                        .ended = &ended_};
  if (!channel->memory) return mpi_group(std::move(options), std::move(channel));
  if (here < size())
    options.progress = [comm = channel->comm] {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    };
  options.shared = mpi_.memory();
  if (options.shared)
    for (const int r : options.ranks) options.memory_of.push_back(mpi_.memory_of(r));
  std::byte* memory = channel->memory;
  const std::shared_ptr<Group> group = node_group(std::move(options), memory);
  return {group.get(), [group, channel](Group*) {}};
}

}  // namespace plait::wire
