// MPI in this process: begun once, ended with the process. Who shares a node with whom, and the memory that the ranks
// of a node share: their boards, and from where they take tensors.
#pragma once
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wire/group.h"
#include "wire/node/memory.h"

namespace plait::wire {

// Throws CommError with what MPI says.
void mpi_check(int code, const char* what);

class MpiRuntime {
 public:
  // The communicator of a group's members, and their memory where all are on one node; made once for each group that
  // lives at the same time as others of the same members, and used again after it.
  struct Channel {
    MPI_Comm comm = MPI_COMM_NULL;
    std::byte* memory = nullptr;  // of a node group; null: the members are on several nodes
    uint64_t sequence = 0;        // collectives of all its groups so far
    bool taken = false;
  };

  // Begins MPI at the first call. Collective over all ranks.
  static MpiRuntime& get();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(node_of_.size()); }
  bool threads_may_call() const { return level_ == MPI_THREAD_MULTIPLE; }

  int node_of(int rank) const { return node_of_[rank]; }
  const std::string& node_name() const { return node_name_; }
  const std::vector<int>& neighbours() const { return neighbours_; }  // the ranks of this node, ascending
  RankBoard& board(int rank) const;                                   // REQUIRES a rank of this node
  std::atomic<int>& reported() const { return *reported_; }           // of the node: set by who reports

  // What this rank takes tensors from that its neighbours reach; null where the ranks of this node share none.
  NodeMemory* memory() const { return memory_.get(); }
  std::byte* memory_of(int rank) const;  // of a rank of this node; REQUIRES memory()

  // Each member calls it. The channel is given back when nobody holds it any more. `share`: memory, where all members
  // are on one node.
  enum class Share { memory, nothing };
  std::shared_ptr<Channel> channel(const std::vector<int>& members, Share share);

 private:
  MpiRuntime();
  void share_boards(MPI_Comm node);
  void share_memory(MPI_Comm node);
  size_t place_of(int rank) const;  // among the neighbours
  void make(Channel& channel, const std::vector<int>& members, Share share);

  int rank_ = 0, level_ = 0;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::vector<int> node_of_;  // by rank: the least rank of its node
  std::string node_name_;
  std::vector<int> neighbours_;
  std::byte* boards_ = nullptr;
  std::shared_ptr<NodeMemory> memory_;
  std::vector<Mapping> reached_;  // by neighbour; of this one empty
  std::atomic<int>* reported_ = nullptr;
  std::map<std::pair<std::vector<int>, Share>, std::vector<std::unique_ptr<Channel>>> channels_;
};

}  // namespace plait::wire
