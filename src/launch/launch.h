// Whether a launcher (mpirun, srun) started this process as one rank of several, by what it put into the environment.
#pragma once
#include <functional>

namespace plait {

struct Launch {
  int ranks = 0;           // of the world; 0: no launcher, ranks are threads of this process
  int rank = 0;            // this one
  int ranks_per_node = 0;  // 0: not told

  bool launched() const { return ranks > 0; }
  bool first() const { return rank == 0; }  // who speaks for all
};

// variable(name): its text, or null.
Launch launch_of(const std::function<const char*(const char*)>& variable);

// Of this process.
Launch this_launch();

}  // namespace plait
