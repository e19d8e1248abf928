// How a move cuts, packs and orders its bytes on one rank: who sends which box of a value to whom, as runs of memory,
// and through which buffers. Made once from the types; the plan counts it, the executor performs it. The runs of rows
// follow from the tables of a step.
#pragma once
#include <span>

#include "schedule/boxes.h"
#include "schedule/op.h"

namespace plait {

// One side of a message of one value: parts of this rank's memory, in the order of the message.
struct Side {
  std::vector<std::vector<Pieces>> parts;
  std::vector<int64_t> counts;  // of each part
  int64_t total = 0;
  bool in_order = true;  // the parts lie one behind the other and are the whole value
};

// One value of a message, in units: elements, or rows where it has cells of rows.
// Parts are by member of the group; but of a gather one part goes out, to all alike, and of a scatter one comes in.
struct Parcel {
  Side send, receive;
  int64_t before = 0, after = 0;  // what this rank holds

  bool leaves_gaps() const { return receive.total < after; }  // the rest of the result is zero
  bool adds() const { return receive.total > after; }         // parts overlap: summed in the order of the members
};

// How one value is cut.
struct Cut {
  Common boxes;       // of the value's elements, or of its cells
  bool rows = false;  // cells of rows: a unit is a row
  int64_t width = 1;  // elements of a unit
};

struct MessagePlan {
  Collective collective = Collective::none;
  std::vector<Atom> atoms;   // who differs in these only forms the group
  std::vector<int> members;  // of the group; this rank alone where nothing travels
  std::vector<Cut> cuts;     // by value; none where the values are summed as they are
};

struct MoveOnRank {
  const Mesh& mesh;
  int rank;
  const Legs& legs;
  std::span<const Type*const> in, out;  // what stands in `in` behind the values is not looked at
};
MessagePlan message_plan(const MoveOnRank& move);

// The rows of each cell that this rank holds of a value, row-major.
struct CellCounts {
  const int64_t *before, *after;
};

// What each value sends and gets. `tables`: by value; a message of values of fixed size needs none.
std::vector<Parcel> parcels(const MessagePlan& plan, std::span<const CellCounts> tables);

// Whether a message goes out of, or comes into, the memory of its value, without a buffer.
bool direct(std::span<const Parcel> message, Side Parcel::*side);

// Bytes of the buffers that a message needs. `item`: bytes of an element, by value.
int64_t buffer_bytes(const MessagePlan& plan, std::span<const Parcel> message, std::span<const int64_t> item);

}  // namespace plait
