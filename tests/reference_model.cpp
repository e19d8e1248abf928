#include "reference_model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plait {
namespace {

// Which experts a micro-batch's tokens go to: decided on plain numbers, without gradient.
struct Choice {
  at::Tensor idx_TK;   // int64, 0 on padding
  at::Tensor kept_TK;  // 1 = travels, 0 = dropped or padding
  at::Tensor real_T1;  // 1 = real token
};

class PlainModel {
 public:
  PlainModel(const ModelSizes& sizes, const Tensors& parameters) : s_(sizes) {
    for (const auto& [name, tensor] : parameters) w_[name] = tensor.clone().requires_grad_();
    chosen.assign(static_cast<size_t>(s_.layers), {});
    kept = chosen;
  }

  // Adds a micro-batch to the losses.
  void add(const Tokens& tokens, double batch_tokens) {
    mask_ = tokens.mask.to(at::kDouble);
    share_ = mask_.sum().item<double>() / batch_tokens;
    at::Tensor x = weight("model.embed_tokens.weight").index_select(0, tokens.ids);
    if (gpt2()) {
      const at::Tensor rows = weight("model.embed_positions.weight").narrow(0, 0, s_.positions);
      x = x + rows.repeat({s_.sequences, 1});
    }
    for (int64_t l = 0; l < s_.layers; ++l) {
      x = x + attention(norm(x, layer(l, "input_layernorm")), l);
      const at::Tensor h = norm(x, layer(l, "post_attention_layernorm"));
      x = x + (s_.has_experts(l) ? experts(h, l) : dense(h, l));
    }
    const at::Tensor head = weight(s_.tied ? "model.embed_tokens.weight" : "lm_head.weight");
    const at::Tensor logits = norm(x, "model.norm").matmul(head.t());
    const at::Tensor log_p = at::log_softmax(logits, -1).gather(1, tokens.targets.unsqueeze(1)).squeeze(1);
    nll = nll - (log_p * mask_).sum() / batch_tokens;
  }

  Tensors gradients() {
    (nll + aux).backward();
    Tensors all;
    for (const auto& [name, tensor] : w_)
      all[name] = tensor.grad().defined() ? tensor.grad() : at::zeros(tensor.sizes(), at::kDouble);
    return all;
  }

  at::Tensor nll = at::zeros({}, at::kDouble), aux = at::zeros({}, at::kDouble);
  std::vector<std::vector<double>> chosen, kept;  // by layer; empty where dense
  double margin = 1;

 private:
  const at::Tensor& weight(const std::string& name) const { return w_.at(name); }
  static std::string layer(int64_t l, const char* part) { return fmt::format("model.layers.{}.{}", l, part); }

  bool gpt2() const { return s_.architecture == &architectures::gpt2; }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor& gain = weight(name + ".weight");
    if (!gpt2()) return x * at::rsqrt(x.square().mean(-1, true) + s_.norm_eps) * gain;
    const at::Tensor centred = x - x.mean(-1, true);
    return centred * at::rsqrt(centred.square().mean(-1, true) + s_.norm_eps) * gain + weight(name + ".bias");
  }

  // x plus the bias of this name, where the architecture has it.
  at::Tensor biased(const at::Tensor& x, const std::string& name) const { return gpt2() ? x + weight(name) : x; }

  // x [B, S, heads, A]: feature a of the first half and a of the second turn together.
  at::Tensor turned(const at::Tensor& x) const {
    if (gpt2()) return x;
    const int64_t half = x.size(3) / 2;
    const at::Tensor cos = at::zeros({x.size(1), 1, half}, at::kDouble), sin = cos.clone();
    auto c = cos.accessor<double, 3>(), s = sin.accessor<double, 3>();
    for (int64_t p = 0; p < x.size(1); ++p)
      for (int64_t a = 0; a < half; ++a) {
        const double angle =
            static_cast<double>(p) / std::pow(s_.rope_theta, 2.0 * static_cast<double>(a) / (2.0 * half));
        c[p][0][a] = std::cos(angle);
        s[p][0][a] = std::sin(angle);
      }
    const at::Tensor low = x.narrow(3, 0, half), high = x.narrow(3, half, half);
    return at::stack({low * cos - high * sin, high * cos + low * sin}, 3).flatten(3);
  }

  at::Tensor heads(const at::Tensor& h, const std::string& name) const {
    const at::Tensor& w = weight(name + ".weight");
    return biased(at::einsum("td,had->tha", {h, w}), name + ".bias")
        .view({s_.sequences, s_.positions, w.size(0), w.size(1)});
  }

  at::Tensor attention(const at::Tensor& h, int64_t l) const {
    const int64_t share = s_.heads / s_.kv_heads;
    const at::Tensor q = turned(heads(h, layer(l, "self_attn.q_proj")));
    const at::Tensor k = turned(heads(h, layer(l, "self_attn.k_proj"))).repeat_interleave(share, 2);
    const at::Tensor v = heads(h, layer(l, "self_attn.v_proj")).repeat_interleave(share, 2);
    const at::Tensor future = at::ones({s_.positions, s_.positions}, at::kBool).triu(1);
    const at::Tensor scores = at::einsum("bqha,bkha->bhqk", {q, k}) / std::sqrt(static_cast<double>(s_.head_size()));
    const at::Tensor o =
        at::einsum("bhqk,bkha->bqha", {at::softmax(scores.masked_fill(future, -INFINITY), -1), v}).flatten(0, 1);
    return biased(at::einsum("tha,dha->td", {o, weight(layer(l, "self_attn.o_proj.weight"))}),
                  layer(l, "self_attn.o_proj.bias"));
  }

  at::Tensor act(const at::Tensor& x) const {
    if (s_.act == Act::relu) return at::relu(x);
    if (s_.act == Act::gelu_tanh) return x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3)))) / 2;
    return s_.act == Act::silu ? x * at::sigmoid(x) : x * (1 + at::erf(x / std::sqrt(2.0))) / 2;
  }

  // up [.., U, F] with a gate, [.., F] without.
  at::Tensor hidden(const at::Tensor& up) const { return s_.glu ? act(up.select(-2, 0)) * up.select(-2, 1) : act(up); }

  at::Tensor dense(const at::Tensor& h, int64_t l) const {
    const at::Tensor up = s_.glu ? at::einsum("td,ufd->tuf", {h, weight(layer(l, "mlp.gate_up_proj.weight"))})
                                 : at::einsum("td,fd->tf", {h, weight(layer(l, "mlp.up_proj.weight"))});
    const at::Tensor in = hidden(biased(up, layer(l, "mlp.up_proj.bias")));
    return biased(at::einsum("tf,df->td", {in, weight(layer(l, "mlp.down_proj.weight"))}),
                  layer(l, "mlp.down_proj.bias"));
  }

  // Every expert sees every token; the weights, zero nearly everywhere, pick.
  at::Tensor experts(const at::Tensor& h, int64_t l) {
    const at::Tensor logits = at::einsum("td,ed->te", {h, weight(layer(l, "mlp.gate.weight"))});
    const at::Tensor p = at::softmax(logits, -1);
    const Choice choice = choose(p.detach(), l);
    add_gate_losses(logits, choice);
    const at::Tensor combine = at::zeros(p.sizes(), at::kDouble).scatter_add(1, choice.idx_TK, weights(p, choice));
    const at::Tensor up = s_.glu ? at::einsum("td,eufd->teuf", {h, weight(layer(l, "mlp.experts.gate_up_proj"))})
                                 : at::einsum("td,efd->tef", {h, weight(layer(l, "mlp.experts.up_proj"))});
    const at::Tensor in = hidden(biased(up, layer(l, "mlp.experts.up_proj_bias")));
    const at::Tensor out = biased(at::einsum("tef,edf->ted", {in, weight(layer(l, "mlp.experts.down_proj"))}),
                                  layer(l, "mlp.experts.down_proj_bias"));
    return at::einsum("te,ted->td", {combine, out});
  }

  at::Tensor weights(const at::Tensor& p, const Choice& choice) const {
    const at::Tensor chosen = p.gather(1, choice.idx_TK), kept = chosen * choice.kept_TK;
    if (s_.normalize == Normalize::none) return kept;
    const at::Tensor sum = (s_.normalize == Normalize::before ? chosen : kept).sum(1, true);
    return kept / at::where(sum > 0, sum, at::ones({}, at::kDouble));
  }

  Choice choose(const at::Tensor& p, int64_t l) {
    const int64_t tokens = p.size(0), experts = p.size(1);
    const Choice c{at::zeros({tokens, s_.top_k}, at::kLong), at::zeros({tokens, s_.top_k}, at::kDouble),
                   mask_.unsqueeze(1)};
    auto &routes = chosen[static_cast<size_t>(l)], &travel = kept[static_cast<size_t>(l)];
    routes.resize(static_cast<size_t>(experts));
    travel.resize(static_cast<size_t>(experts));
    const double* mask = mask_.const_data_ptr<double>();
    for (int64_t t = 0; t < tokens; ++t) {
      if (mask[t] == 0) continue;
      const double* prob = p.const_data_ptr<double>() + t * experts;
      std::vector<int64_t> order(static_cast<size_t>(experts));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return prob[a] > prob[b]; });
      for (int64_t k = 0; k < s_.top_k; ++k) {
        c.idx_TK.data_ptr<int64_t>()[t * s_.top_k + k] = order[static_cast<size_t>(k)];
        routes[static_cast<size_t>(order[static_cast<size_t>(k)])] += 1;
      }
      if (s_.top_k < experts) between(prob[order[s_.top_k - 1]], prob[order[s_.top_k]]);
    }
    const int64_t group = s_.capacity ? s_.group : tokens;
    for (int64_t first = 0; first < tokens; first += group)
      for (int64_t e = 0; e < experts; ++e) travel[static_cast<size_t>(e)] += keep(p, c, {first, first + group, e});
    return c;
  }

  struct Seats {
    int64_t first, last, expert;
  };

  void between(double taken, double left) { margin = std::min(margin, taken - left); }

  // Marks the routes to one expert that one group of tokens keeps; returns how many.
  double keep(const at::Tensor& p, const Choice& c, const Seats& seats) {
    const int64_t* idx = c.idx_TK.const_data_ptr<int64_t>();
    std::vector<std::pair<double, int64_t>> queue;  // how sure, which route
    for (int64_t r = seats.first * s_.top_k; r < seats.last * s_.top_k; ++r)
      if (mask_.const_data_ptr<double>()[r / s_.top_k] != 0 && idx[r] == seats.expert)
        queue.emplace_back(p.const_data_ptr<double>()[r / s_.top_k * s_.experts + seats.expert], r);
    if (s_.drop == Drop::probs)
      std::stable_sort(queue.begin(), queue.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    const size_t seated = s_.capacity ? std::min(queue.size(), static_cast<size_t>(s_.capacity)) : queue.size();
    if (s_.drop == Drop::probs && seated < queue.size()) between(queue[seated - 1].first, queue[seated].first);
    for (size_t i = 0; i < seated; ++i) c.kept_TK.data_ptr<double>()[queue[i].second] = 1;
    return static_cast<double>(seated);
  }

  void add_gate_losses(const at::Tensor& logits, const Choice& c) {
    const double n = mask_.sum().item<double>();
    const at::Tensor mean_p = (at::softmax(logits, -1) * c.real_T1).sum(0) / n;
    const at::Tensor load = at::zeros({s_.experts}, at::kDouble)
                                .scatter_add(0, c.idx_TK.flatten(), c.real_T1.expand({-1, s_.top_k}).flatten()) /
                            n;
    const at::Tensor z = (at::logsumexp(logits, 1).square() * mask_).sum() / n;
    const double per_choice = static_cast<double>(s_.experts) / static_cast<double>(s_.top_k);
    aux = aux + share_ * (s_.aux_coef * per_choice * (mean_p * load).sum() + s_.z_coef * z);
  }

  const ModelSizes s_;
  Tensors w_;
  at::Tensor mask_;
  double share_ = 1;
};

}  // namespace

namespace {

// So small a model is slower with several threads.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace

ReferenceOutcome reference(const ModelSizes& sizes, const Tensors& parameters, const std::vector<Tokens>& micro) {
  const OneThread guard;
  PlainModel model(sizes, parameters);
  double batch_tokens = 0;
  for (const Tokens& tokens : micro) batch_tokens += tokens.mask.sum().item<double>();
  for (const Tokens& tokens : micro) model.add(tokens, batch_tokens);
  ReferenceOutcome out{.nll = model.nll.item<double>(), .aux = model.aux.item<double>(), .margin = model.margin};
  out.gradients = model.gradients();
  double squares = 0;
  for (const auto& [name, gradient] : out.gradients) squares += gradient.square().sum().item<double>();
  out.norm = std::sqrt(squares);
  for (size_t l = 0; l < model.chosen.size(); ++l) {
    if (model.chosen[l].empty()) continue;
    out.chosen.push_back(model.chosen[l]);
    out.kept.push_back(model.kept[l]);
  }
  return out;
}

}  // namespace plait
