// How an architecture is written: from ids to logits, each block declaring its parameters where it reads them.
#pragma once
#include "config/architecture.h"
#include "model/blocks/moe.h"

namespace plait {

// What its layers leave: logits [T, V], V sharded over tp, and what the losses of the gates need.
struct WrittenModel {
  ValueId logits = -1;
  std::vector<GateSums> gates;
};

struct ArchitectureCode {
  // After the data leaves of every model (see Model); others it declares itself.
  WrittenModel (*write)(Writer& w);
  // The experts of a layer alone, of the norm [T, D] as tokens are held between blocks: what `auto` and the bench of a
  // layer perform. Null: no layer of it has experts.
  MoeTerms (*moe)(Writer& w, ValueId normed, int64_t layer) = nullptr;
};

const ArchitectureCode& code_of(const Architecture& architecture);

namespace architectures {

extern const ArchitectureCode mixtral_code;

}  // namespace architectures
}  // namespace plait
