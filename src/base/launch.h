// Whether a launcher (mpirun, srun) started this process as one rank of several, by what it put into the environment.
#pragma once

namespace plait {

bool launched();
int launched_rank();       // of the world; 0 when not launched
int launched_size();       // ranks of the world; 1 when not launched
int launched_node_size();  // ranks of a node; 0 when not launched, or not told

}  // namespace plait
