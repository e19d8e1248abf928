// Another program that runs the layers of a grid, in turns with ours: it is asked for a layer with one line of JSON and
// answers with the milliseconds of its steps, or why it skips the layer (bench/peers/README.md).
#pragma once
#include <memory>

#include "bench/grid_runner.h"
#include "bench/peer_process.h"

namespace plait {

class GridPeer {
 public:
  // `command` is a program and its arguments, by blanks; `name` that of its rows. REQUIRES to be made by one rank
  // alone.
  GridPeer(const std::string& command, std::string name);

  // The layer that the next rounds are about.
  void begin(const Config& config);

  // A round, in two parts: between them every rank may sleep.
  void ask();
  bool answered() const { return !skip_.empty() || process_.ready(); }
  void take();

  // What the rounds came to.
  GridRow row() const;

 private:
  std::string name_;
  PeerProcess process_;
  std::string layer_;  // the line without its number of steps
  std::string skip_;   // why it does not run the layer
  std::vector<double> rounds_ms_;
};

// Until rank 0's `done` says so; every rank calls it. All sleep but for a message every now and then.
void sleep_until(wire::Group& everyone, const std::function<bool()>& done);

}  // namespace plait
