// One of several processes that a launcher started, as a rank among its neighbours.
#pragma once
#include <functional>

#include "launch/board.h"

namespace plait::launch {

// What a wire tells of this process among the ranks.
struct Process {
  int rank = 0, ranks = 1;               // in the world
  std::string node;                      // the name of its node
  std::vector<int> neighbours;           // the ranks of its node, ascending, this one among them
  std::vector<RankBoard*> boards;        // theirs, in memory that all of them see
  std::atomic<int>* reported = nullptr;  // in that memory: set by who reports
  std::string one_sender = {};           // why only one thread of a rank may send; empty: any may
  std::function<void(int code)> abort;   // ends the processes of all ranks

  size_t place() const;  // of this rank among its neighbours
  RankBoard& board() const { return *boards[place()]; }
};

}  // namespace plait::launch
