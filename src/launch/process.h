// What a rank that is a process does around its body, over whatever wire it sends: it takes its cores, watches its
// neighbours, and turns any failure into one report a node and the end of all ranks.
#pragma once
#include "launch/board.h"
#include "launch/rank_options.h"

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

// Runs the body. Any failure ends all processes, with a report on standard error and a code other than zero. InputError
// when the launcher started another number of ranks than options.ranks, or the process lacks what they ask for.
void run_process(const Process& process, const RankOptions& options, const std::function<void()>& body);

}  // namespace plait::launch
