// What a machine is to a plan: rates of a rank, and what a message costs between which ranks. Plain data, so that
// measurements can fill it; machine_file reads and writes it.
#pragma once
#include <array>
#include <span>
#include <string>
#include <vector>

#include "schedule/op.h"

namespace plait {

struct MessagePoint {
  double bytes = 0, seconds = 0;
  bool operator==(const MessagePoint&) const = default;
};

// A message of which a rank sends b bytes (as StepCost::wire_bytes counts them) takes alpha + beta * b seconds. Real
// wires bend: where points were measured, the price lies on the lines between them, and beyond the last on the line
// from nothing to it.
struct MessageCost {
  double alpha = 0;                       // s
  double beta = 0;                        // s/byte
  double r2 = 1;                          // how well the line fits what was measured: 1 at best
  std::vector<MessagePoint> points = {};  // by size; none, or at least two
  double seconds(double bytes) const;
  bool known() const { return alpha > 0 || beta > 0; }
  bool operator==(const MessageCost&) const = default;
};
using MessageCosts = std::array<MessageCost, 5>;  // by Collective

// One level of the network, such as a node or a rack: blocks of `ranks` consecutive ranks, and what their messages to
// one another cost.
struct Level {
  std::string name;
  int ranks = 1;  // of a block; the last level of a machine holds all ranks, whatever it says
  MessageCosts cost = {};
  // s from the end of a message among the steps of a list until its ranks go on; on a lane others travel meanwhile, and
  // it takes hand_over more from thread to thread.
  double meet = 0, hand_over = 0;
  const MessageCost& of(Collective collective) const { return cost[static_cast<size_t>(collective)]; }
  bool operator==(const Level&) const = default;
};

// Ranks that lie `stride` apart: r, r + stride, .. r + (size - 1) * stride.
struct Digit {
  int size = 1, stride = 1;
  bool operator==(const Digit&) const = default;
};
using Digits = std::vector<Digit>;  // fastest first; neighbours that make one run are one: [2,1] [2,2] is [4,1]

// Groups over these digits, measured while all of them send at once.
struct GroupCost {
  Digits digits;
  int level = 0;           // the slowest that they cross
  MessageCosts cost = {};  // those not measured are not known()
  const MessageCost& of(Collective collective) const { return cost[static_cast<size_t>(collective)]; }
  bool operator==(const GroupCost&) const = default;
};

// Two messages at once, each on a lane of its own.
struct PairCost {
  Digits first, second;
  Collective first_kind = Collective::none, second_kind = Collective::none;
  double share = 1;  // seconds of both together / the sum of the seconds of each alone
  bool operator==(const PairCost&) const = default;
};

// A product [rows, inner] x [inner, columns] of one rank while all ranks compute.
struct ProductPoint {
  double rows = 0, columns = 0, inner = 0;
  double flops = 0;  // per second
  bool operator==(const ProductPoint&) const = default;
};

struct Machine {
  std::string name;
  std::string note = {};    // where the numbers are from; for people
  int ranks = 0;            // that it was measured with; 0: not measured
  double flops = 1;         // of matrix products, per second and rank
  double memory_bytes = 1;  // read or written, per second and rank
  double start = 0;         // s from one op to the next
  double crowding = 0;      // s that a message on a lane takes longer for each second that its rank computes meanwhile
  std::vector<Level> levels;  // from the inside out; REQUIRES at least one
  std::vector<GroupCost> groups = {};
  std::vector<PairCost> pairs = {};
  std::vector<ProductPoint> products = {};
  bool operator==(const Machine&) const = default;
};

// Of groups over these atoms.
Digits digits_of(const Mesh& mesh, std::span<const Atom> atoms);

// What was measured for groups of this shape; nullptr where nothing was.
const MessageCost* find_cost(const Machine& machine, const Digits& digits, Collective collective);

// A laptop whose ranks are threads, and slow cables between several of them. Round numbers, for pictures, orders and
// comparisons.
Machine default_machine(int ranks_per_node = 8);

// The level that a message between ranks which differ in this atom crosses: the innermost whose blocks hold every such
// group.
int level_of(const Machine& machine, const Mesh& mesh, Atom atom);
// The slowest of several; -1 without atoms.
int level_of(const Machine& machine, const Mesh& mesh, std::span<const Atom> atoms);

}  // namespace plait
