#include "bench/plain_layer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/special_ndtr.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/errors.h"
#include "model/parameters.h"

namespace plait {
namespace {

const std::string kGate = layer_name(0, "mlp.gate.weight"), kNoise = layer_name(0, "mlp.gate_noise.weight");

struct Chosen {
  at::Tensor expert_TK, weight_TK;
};

class Layer {
 public:
  Layer(const ModelSizes& sizes, const Tensors& parameters, const LayerTokens& tokens)
      : s_(sizes), tokens_(tokens), x_(tokens.x_TD.detach().requires_grad_()) {
    for (const auto& [name, whole] : parameters) {
      const bool one = name == kGate || name == kNoise;
      const std::vector<at::Tensor> parts = one ? std::vector<at::Tensor>{whole} : whole.detach().unbind(0);
      for (const at::Tensor& part : parts) weight_[name].push_back(part.detach().requires_grad_());
    }
  }

  PlainOutcome run() {
    const at::Tensor logits = s_.gate->has_logits() ? at::linear(x_, weight_.at(kGate)[0]) : at::Tensor();
    const at::Tensor p = logits.defined() ? at::softmax(logits, -1) : logits;
    const at::Tensor y = s_.route().chooser == Chooser::expert ? by_experts(p) : by_tokens(choose(logits, p));
    const at::Tensor loss = (y * tokens_.dy_TD).sum();
    (aux_.defined() ? loss + aux_ : loss).backward();
    PlainOutcome out{.y_TD = y.detach(), .dx_TD = x_.grad()};
    for (const auto& [name, weights] : weight_)
      for (const at::Tensor& weight : weights) out.gradients[name].push_back(weight.grad());
    return out;
  }

 private:
  at::Tensor act(const at::Tensor& x) const {
    if (s_.act == Act::relu) return at::relu(x);
    return s_.act == Act::silu ? at::silu(x) : at::gelu(x);
  }

  at::Tensor expert(const at::Tensor& rows, int64_t e) const {
    const at::Tensor down = weight_.at(layer_name(0, "mlp.experts.down_proj"))[e];
    if (!s_.glu) return at::linear(act(at::linear(rows, weight_.at(layer_name(0, "mlp.experts.up_proj"))[e])), down);
    const at::Tensor pair = weight_.at(layer_name(0, "mlp.experts.gate_up_proj"))[e];
    return at::linear(act(at::linear(rows, pair.select(0, 0))) * at::linear(rows, pair.select(0, 1)), down);
  }

  Chosen normalised(const at::Tensor& scores, const at::Tensor& idx) const {
    const at::Tensor w = scores.gather(1, idx);
    return {idx, s_.normalize == Normalize::none ? w : w / w.sum(1, true)};
  }

  Chosen choose(const at::Tensor& logits, const at::Tensor& p) {
    if (!logits.defined()) {
      std::vector<at::Tensor> columns;
      for (int64_t k = 0; k < s_.top_k; ++k) columns.push_back((tokens_.ids_T + k).remainder(s_.experts));
      const at::Tensor idx = at::stack(columns, 1);
      return {idx, at::full(idx.sizes(), 1.0 / static_cast<double>(s_.top_k), x_.options())};
    }
    if (s_.route().chooser == Chooser::group) {
      const at::Tensor idx = tokens_.routes_T.unsqueeze(1);
      return {idx, at::sigmoid(logits.gather(1, idx))};
    }
    if (s_.route().bias) {  // its bias is zero at the start, so it chooses by the score alone
      const at::Tensor scores = at::sigmoid(logits);
      Chosen c = normalised(scores, std::get<1>(scores.topk(s_.top_k)));
      return {c.expert_TK, c.weight_TK * s_.rule.scaling};
    }
    if (s_.noise) return noisy(logits);
    const at::Tensor idx = std::get<1>(logits.topk(s_.top_k));
    add_losses(logits, p, idx);
    if (&s_.route() == &topk_softmax_route) return {idx, at::softmax(logits.gather(1, idx), -1)};
    return normalised(p, idx);
  }

  Chosen noisy(const at::Tensor& logits) {
    const at::Tensor spread = at::softplus(at::linear(x_, weight_.at(kNoise)[0]));
    const at::Tensor noisy = logits + tokens_.noise_TE * spread;
    const auto [best, order] = noisy.topk(std::min(s_.top_k + 1, s_.experts));
    const at::Tensor idx = order.narrow(1, 0, s_.top_k), weight = at::softmax(noisy.gather(1, idx), -1);
    if (s_.aux_coef == 0) return {idx, weight};
    expects(s_.top_k < s_.experts, "plain_layer: the noisy gate's load needs an expert that is not chosen");
    const at::Tensor importance = at::zeros_like(logits).scatter(1, idx, weight).sum(0);
    // What an expert's logit has to beat: the last that is chosen, or the next one where it is chosen itself.
    const at::Tensor last = best.select(1, s_.top_k - 1).unsqueeze(1), next = best.select(1, s_.top_k).unsqueeze(1);
    const at::Tensor load = at::special_ndtr((logits - at::where(noisy.ge(last), next, last)) / spread).sum(0);
    const auto variation = [](const at::Tensor& v) { return v.var(/*unbiased=*/false) / v.mean().square(); };
    aux_ = (variation(importance) + variation(load)) * (s_.aux_coef / 2);
    return {idx, weight};
  }

  void add_losses(const at::Tensor& logits, const at::Tensor& p, const at::Tensor& idx) {
    if (s_.aux_coef == 0 && s_.z_coef == 0) return;
    const at::Tensor counted = idx.narrow(1, 0, s_.aux_choices()).flatten();
    const at::Tensor share = counted.bincount({}, s_.experts).to(p.scalar_type()) / static_cast<double>(p.size(0));
    const double per_choice = static_cast<double>(s_.experts) / static_cast<double>(s_.aux_choices());
    aux_ = (p.mean(0) * share).sum() * (s_.aux_coef * per_choice);
    if (s_.z_coef != 0) aux_ = aux_ + at::logsumexp(logits, 1).square().mean() * s_.z_coef;
  }

  at::Tensor by_tokens(const Chosen& c) const {
    at::Tensor y = at::zeros_like(x_);
    for (int64_t e = 0; e < s_.experts; ++e) {
      const std::vector<at::Tensor> at = at::eq(c.expert_TK, e).nonzero().unbind(1);  // tokens, choices
      const at::Tensor out = expert(x_.index_select(0, at[0]), e);
      const at::Tensor weight = c.weight_TK.flatten().index_select(0, at[0] * c.weight_TK.size(1) + at[1]);
      y.index_add_(0, at[0], out * weight.unsqueeze(1));
    }
    return y;
  }

  // Each expert takes the tokens of a group that want it most.
  at::Tensor by_experts(const at::Tensor& p) const {
    const int64_t tokens = p.size(0), group = std::min(tokens, s_.group), room = s_.capacity * group / s_.group;
    at::Tensor y = at::zeros_like(x_);
    for (int64_t e = 0; e < s_.experts; ++e) {
      std::vector<at::Tensor> taken;
      for (int64_t first = 0; first < tokens; first += group)
        taken.push_back(std::get<1>(p.narrow(0, first, group).select(1, e).topk(std::min(room, group))) + first);
      const at::Tensor at = at::cat(taken);
      y.index_add_(0, at, expert(x_.index_select(0, at), e) * p.select(1, e).index_select(0, at).unsqueeze(1));
    }
    return y;
  }

  const ModelSizes& s_;
  const LayerTokens& tokens_;
  at::Tensor x_, aux_;
  std::map<std::string, std::vector<at::Tensor>> weight_;
};

}  // namespace

PlainOutcome plain_layer(const ModelSizes& sizes, const Tensors& parameters, const LayerTokens& tokens) {
  expects(sizes.capacity == 0 || sizes.route().chooser == Chooser::expert, "plain_layer: nothing is dropped");
  expects(sizes.shared_experts == 0 && (!sizes.draws() || sizes.noise) &&
              sizes.rule.expert_groups == sizes.rule.kept_groups,
          "plain_layer: no shared experts, nothing drawn, no groups of experts");
  return Layer(sizes, parameters, tokens).run();
}

}  // namespace plait
