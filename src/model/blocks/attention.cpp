#include "model/blocks/attention.h"

#include "model/blocks/norm.h"

namespace plait {
namespace {

using Biases = AttentionStyle::Biases;
using HeadNorm = AttentionStyle::HeadNorm;

struct Projection {
  std::string part;  // "q_proj"
  std::string name;  // "q"
  Dim heads;
};

class Attending {
 public:
  Attending(Writer& w, int64_t layer, AttentionStyle style)
      : w_(w), s_(w.sizes), layer_(layer), style_(style), d_{"D", s_.width}, a_{"A", s_.head_size()} {}

  // Of h [T, D], whole over tp: [B, S, heads, A].
  ValueId query(ValueId h) {
    return rotated(clipped(normed(projected(h, {"q_proj", "q", heads("H", s_.heads)}), "q_norm")));
  }
  ValueId key(ValueId h) {
    return rotated(clipped(normed(projected(h, {"k_proj", "k", heads("J", s_.kv_heads)}), "k_norm")));
  }
  ValueId value(ValueId h) { return by_sequence(clipped(projected(h, {"v_proj", "v", heads("J", s_.kv_heads)}))); }

  // Of what the heads give, [B, S, H, A]: tokens as they are held between blocks.
  ValueId output(ValueId o) {
    Parameter out = weight("o_proj.weight", {d_, heads("H", s_.heads), a_});
    out.init = residual_init(s_);
    o = w_.from_parallel(w_.product(w_.b.add(Flatten{"T", "B", "S"}, {o}), out, {"T", "D"}, "attention_out"));
    if (style_.biases != Biases::all) return o;
    Parameter bias = vector("o_proj.bias", {d_});
    bias.over = w_.tokens;
    return biased(o, bias, "attention_out");
  }

 private:
  Dim heads(const char* name, int64_t count) const { return {name, count, stack_of(w_.tp)}; }

  Parameter weight(const std::string& part, std::vector<Dim> dims) const {
    return in_layer(layer_,
                    {.name = "self_attn." + part, .dims = std::move(dims), .over = w_.dp, .group = "attention"});
  }

  // A bias, or a gain.
  Parameter vector(const std::string& part, std::vector<Dim> dims, Init init = Zeros{}) const {
    Parameter p = weight(part, std::move(dims));
    p.init = init;
    p.decays = false;
    p.dtype = Dtype::full;
    return p;
  }

  ValueId projected(ValueId h, const Projection& p) {
    const ValueId x = w_.product(h, weight(p.part + ".weight", {p.heads, a_, d_}), {"T", p.heads.name, "A"}, p.name);
    if (style_.biases == Biases::none) return x;
    return biased(x, vector(p.part + ".bias", {p.heads, a_}), p.name);
  }

  ValueId biased(ValueId x, const Parameter& bias, const std::string& name) {
    return w_.b.add(AddBias{}, {x, w_.parameter(bias)}, name);
  }

  ValueId clipped(ValueId x) { return s_.clip_qkv > 0 ? w_.b.add(Clip{s_.clip_qkv}, {x}, "clipped") : x; }

  ValueId normed(ValueId x, const char* part) {
    const std::string name = fmt::format("{}.weight", part);
    if (style_.norm == HeadNorm::none) return x;
    if (style_.norm == HeadNorm::each) return write_rms_norm(w_, x, over_tp(vector(name, {a_}, Ones{})));
    const Dim held = w_.b.type(x).dims[1];
    return write_norm_over_heads(w_, x, vector(name, {held, a_}, Ones{}));
  }

  // A gain that all heads share meets those of all ranks of tp.
  Parameter over_tp(Parameter p) const {
    p.over = w_.dp + w_.tp;
    return p;
  }

  ValueId by_sequence(ValueId x) { return w_.b.add(Unflatten{"T", "B", "S", s_.positions}, {x}); }
  ValueId rotated(ValueId x) {
    x = by_sequence(x);
    if (style_.positions == AttentionStyle::Positions::embedded) return x;
    return w_.b.add(Rope{.theta = s_.rope_theta, .scaling = s_.rope}, {x});
  }

  Writer& w_;
  const ModelSizes& s_;
  int64_t layer_;
  AttentionStyle style_;
  Dim d_, a_;
};

}  // namespace

ValueId write_attention(Writer& w, ValueId normed, int64_t layer, AttentionStyle style) {
  Attending a(w, layer, style);
  const ValueId h = w.to_parallel(normed);
  const ValueId q = a.query(h), k = a.key(h), v = a.value(h);
  return a.output(w.b.add_all(Attention{w.sizes.window}, {q, k, v}, "attention").front());
}

}  // namespace plait
