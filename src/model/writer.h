// What the parts of a model share while the schedule is written: the builder, the axes, the parameters, and how a block
// goes from tokens to tensor-parallel work and back.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/model.h"
#include "schedule/builder.h"

namespace plait {

// Which parameters a list has: a whole model's, or those of the experts and the gate of layer 0.
enum class Declare { model, experts };

class Writer {
 public:
  Writer(const Mesh& mesh, const ModelSizes& sizes, Declare what = Declare::model);

  const ModelSizes sizes;
  Builder b;
  const Atoms tp, dp, esp, ep, edp;
  const Atoms far, near;  // of ep: between nodes, and within one; without nodes all is near
  const Atoms tokens;     // atoms that tokens are split over between blocks: dp, and tp where a family cuts them
  const Atoms gated;      // atoms that the tokens of a gate are split over

  // Starts a part of the model: the scope of its names.
  void begin(const std::string& scope);

  // A parameter as the forward pass uses it: entered over the atoms where its readers' tokens are split, or gathered
  // from the shares that these hold.
  ValueId parameter(const std::string& name);

  // [T, D] between blocks -> whole over tp for column-parallel products; and a row-parallel partial sum back.
  ValueId to_parallel(ValueId x);
  ValueId from_parallel(ValueId x);

  ValueId full(ValueId x);  // cast, in mixed precision; x itself where it is full
  ValueId norm(ValueId x, const std::string& gain);
  ValueId product(ValueId x, const std::string& weight, std::vector<std::string> out, const std::string& name);

  Model model;

 private:
  void declare();
  void declare_layer(int64_t layer);
  void declare_experts(int64_t layer);
  // `over`: the atoms it is entered over.
  void declare(Parameter p, std::vector<Dim> dims, const Atoms& over);
  void load_all();

  // Parameters that are loaded in one step, so that their gradients share one message.
  struct Load {
    std::string part;  // "model.layers.3." where each layer loads its own, else empty
    Atoms over;
    Dtype dtype;  // real: cast before it is loaded
    auto operator<=>(const Load&) const = default;
  };
  void load(const Load& group);

  std::map<Load, std::vector<std::string>> loads_;
  std::map<std::string, Load> load_of_;
  std::map<std::string, std::vector<Dim>> dims_;
  std::map<std::string, ValueId> loaded_;
};

std::string layer_scope(int64_t layer);                          // "l3.", in front of what the layer makes
std::string layer_name(int64_t layer, const std::string& part);  // "model.layers.3." + part

// Data leaves: an integer for each token; and what gates read beside tokens and ids.
void declare_integers(Writer& w, const char* name);
void declare_gate_data(Writer& w);

// One function a part of a layer; x and the result are [T, D] as tokens are held between blocks.
ValueId write_attention(Writer& w, ValueId x, int64_t layer);
ValueId write_feed_forward(Writer& w, ValueId x, int64_t layer);
// The experts that every token goes to, one feed-forward of their common width: of the norm, [T, D], to what is added.
ValueId write_shared_experts(Writer& w, ValueId normed, int64_t layer);

// What a MoE layer leaves for the losses and the report: partial sums over the token atoms.
struct GateSums {
  ValueId psum = -1, zsum = -1;  // -1 where no coefficient is set
  ValueId chosen = -1, kept = -1;
  ValueId counted = -1;                // the routes that the auxiliary loss counts, where these are not all
  ValueId importance = -1, load = -1;  // of a noisy gate
};

// Tokens as the gate takes them.
ValueId to_gate(Writer& w, ValueId x);

// The routes of tokens [T, D] as the gate takes them.
struct Gated {
  ValueId weight, idx, slot;
  GateSums sums;
};
Gated write_gate(Writer& w, ValueId h, int64_t layer);

struct MoeOutput {
  ValueId y;
  GateSums sums;
};
MoeOutput write_moe(Writer& w, ValueId x, int64_t layer);
// Of the norm, [T, D], to what is added to the residual stream: the routed experts, then the shared ones.
struct MoeTerms {
  std::vector<ValueId> terms;
  GateSums sums;
};
MoeTerms write_moe_terms(Writer& w, ValueId normed, int64_t layer);

// logits [T, V], V sharded over tp.
ValueId write_head(Writer& w, ValueId x);
ValueId write_nll(Writer& w, ValueId logits);
// Leaves the sums of all layers together, in one message where they are held alike; sets chosen, kept and aux of the
// model.
void write_gate_losses(Writer& w, const std::vector<GateSums>& layers);

}  // namespace plait
