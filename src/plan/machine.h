// What a machine is to a plan: rates of a rank, and for each level of its network what a message costs. Plain data, so
// that measurements can fill it.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "schedule/op.h"

namespace plait {

// A message of b bytes takes alpha + beta * b seconds.
struct MessageCost {
  double alpha = 0;  // s
  double beta = 0;   // s/byte
};

// One level of the network, such as a node or a rack: blocks of `ranks` consecutive ranks, and what their messages to
// one another cost.
struct Level {
  std::string name;
  int ranks = 1;                         // of a block; the last level of a machine holds all ranks, whatever it says
  std::array<MessageCost, 5> cost = {};  // by Collective
  const MessageCost& of(Collective collective) const { return cost[static_cast<size_t>(collective)]; }
};

struct Machine {
  std::string name;
  double flops = 1;           // of matrix products, per second and rank
  double memory_bytes = 1;    // read or written, per second and rank
  double start = 0;           // s from one op to the next
  std::vector<Level> levels;  // from the inside out; REQUIRES at least one
};

// A laptop whose ranks are threads, and slow cables between several of them. Round numbers, for pictures, orders and
// comparisons.
Machine default_machine(int ranks_per_node = 8);

// The level that a message between ranks which differ in this atom crosses: the innermost whose blocks hold every such
// group.
int level_of(const Machine& machine, const Mesh& mesh, Atom atom);
// The slowest of several; -1 without atoms.
int level_of(const Machine& machine, const Mesh& mesh, std::span<const Atom> atoms);

}  // namespace plait
