// What the parts of a model share while the schedule is written: the builder, the axes, the parameters, and how a block
// goes from tokens to tensor-parallel work and back.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "schedule/builder.h"

namespace plait {

// A leaf that a block declares where it reads it: a parameter, or a state, of which only name and dims count.
struct Declaration {
  LeafKind kind = LeafKind::parameter;
  Parameter leaf;
};

class Writer {
 public:
  // `declared`: by an earlier run of the same code, see `written`.
  Writer(const Mesh& mesh, const ModelSizes& sizes, const std::vector<Declaration>& declared = {});

  const ModelSizes sizes;
  Builder b;
  const Atoms tp, dp, esp, ep, edp;
  const Atoms far, near;  // of ep: between nodes, and within one; without nodes all is near
  const Atoms tokens;     // atoms that tokens are split over between blocks: dp, and tp where a family cuts them
  const Atoms gated;      // atoms that the tokens of a gate are split over

  // Starts a part of the model: the scope of its names. A layer's is "l3."; what follows the last layer starts its own.
  void begin(const std::string& scope);
  void begin_layer(int64_t layer);

  // A parameter as the forward pass uses it: entered over the atoms where its readers' tokens are split, or gathered
  // from the shares that these hold. Read twice, it is declared twice, alike.
  ValueId parameter(const Parameter& p);
  // A leaf that is kept, but not trained.
  ValueId state(const std::string& name, const std::vector<Dim>& dims);

  // [T, D] between blocks -> whole over tp for column-parallel products; and a row-parallel partial sum back.
  ValueId to_parallel(ValueId x);
  ValueId from_parallel(ValueId x);

  ValueId full(ValueId x);  // cast, in mixed precision; x itself where it is full
  ValueId product(ValueId x, const Parameter& weight, std::vector<std::string> out, const std::string& name);

  const std::vector<Declaration>& declared() const { return declared_; }
  Model model;

 private:
  // Parameters that are loaded in one step, so that their gradients share one message.
  struct Load {
    int64_t layer = -1;  // where each layer loads its own, else -1
    Atoms over;
    Dtype dtype;  // real: cast before it is loaded
    auto operator<=>(const Load&) const = default;
  };
  Load load_of(const Parameter& p) const;
  bool shares(const Parameter& p) const;
  void declare(const Declaration& d);
  void load(const std::vector<std::string>& alike);
  void begin(const std::string& scope, int64_t layer);

  struct Known {
    Parameter leaf;
    ValueId value = -1;
  };
  std::vector<Declaration> declared_;
  std::map<std::string, Known> known_;
  std::map<Load, std::vector<std::string>> loads_;
  std::map<std::string, ValueId> loaded_;
};

// What `write` writes, with everything that it declares in front, in that order. It runs twice: the first time only to
// hear what it declares, since parameters that are loaded in one step stand before the first of their readers.
Writer written(const Mesh& mesh, const ModelSizes& sizes, const std::function<void(Writer&)>& write);

Init residual_init(const ModelSizes& sizes);  // of the matrices that write to the residual stream

// Data leaves: an integer for each token; and what gates read beside tokens and ids.
void declare_integers(Writer& w, const char* name);
void declare_gate_data(Writer& w);

}  // namespace plait
