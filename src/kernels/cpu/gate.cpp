#include "kernels/cpu/gate.h"

#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

template <class T>
void expects_finite(const T* logits, const int64_t* mask, int64_t tokens, int64_t experts) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (!real(mask, t)) continue;
    for (int64_t e = 0; e < experts; ++e)
      if (!std::isfinite(logits[t * experts + e]))
        throw GateFault(fmt::format("the gate's logit of token {} for expert {} is {}", t, e, logits[t * experts + e]));
  }
}

// The routes of the tokens [begin, end): one gate group.
struct Group {
  int64_t begin, end;
};

template <class T>
struct Capacity {
  const Rows<T>& rows;
  const T* score;
  const int64_t* idx;
  int64_t* slot;

  // Routes in the order in which they queue; gshard's second choices behind all first ones.
  template <class Body>
  void each(const Group& group, Body body) const {
    const int64_t k = rows.options.top_k;
    if (rows.options.gate != Gate::gshard)
      for (int64_t r = group.begin * k; r < group.end * k; ++r) body(r);
    else
      for (int64_t choice = 0; choice < k; ++choice)
        for (int64_t t = group.begin; t < group.end; ++t) body(t * k + choice);
  }
};

// The routes to one expert: those with the greatest keys first, equal ones in their order; then `kept` of them in
// order.
template <class Key>
void keep_greatest(std::vector<int64_t>& routes, int64_t kept, Key key) {
  std::vector<std::pair<double, int64_t>> keyed;
  for (int64_t r : routes) keyed.emplace_back(key(r), r);
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (int64_t i = 0; i < kept; ++i) routes[i] = keyed[i].second;
  std::sort(routes.begin(), routes.begin() + kept);
}

// For each expert of a group: the routes it keeps get slot 0, 1, ..., the others -1.
template <class T>
void give_slots(const Capacity<T>& c, const Group& group) {
  const RouteOptions& options = c.rows.options;
  std::vector<std::vector<int64_t>> queue(c.rows.experts);
  c.each(group, [&](int64_t r) {
    c.slot[r] = -1;
    if (c.idx[r] >= 0) queue[c.idx[r]].push_back(r);
  });
  for (int64_t e = 0; e < c.rows.experts; ++e) {
    std::vector<int64_t>& routes = queue[e];
    const auto size = static_cast<int64_t>(routes.size());
    const int64_t kept = options.drop == Drop::none ? size : std::min(size, options.capacity);
    if (options.drop == Drop::probs && kept < size) keep_greatest(routes, kept, [&](int64_t r) { return c.score[r]; });
    if (options.drop == Drop::rts && kept < size)
      keep_greatest(routes, kept, [&](int64_t r) { return c.rows.extras.priority(r / options.top_k, e); });
    for (int64_t i = 0; i < kept; ++i) c.slot[routes[i]] = i;
  }
}

Normalize normalize_of(const RouteOptions& options) {
  switch (options.gate) {
    case Gate::switch_top1:
    case Gate::expert_choice:
    case Gate::base: return Normalize::none;
    case Gate::gshard: return Normalize::after;
    case Gate::topk_softmax: return options.normalize == Normalize::none ? Normalize::before : options.normalize;
    default: return options.normalize;
  }
}

bool by_sigmoid(Gate gate) { return gate == Gate::sigmoid || gate == Gate::base; }

// share[k] = softmax over the routes that count, 0 for the others. It needs no full softmax and stays exact where the
// probabilities themselves would vanish; one route alone gets exactly 1.
template <class T>
void shares(const Token<T>& token, Normalize normalize, T* share) {
  T top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (counts(normalize, token.idx[k], token.slot[k])) top = std::max(top, token.logits[token.idx[k]]);
  for (int64_t k = 0; k < token.top_k; ++k) {
    bool counted = counts(normalize, token.idx[k], token.slot[k]);
    share[k] = counted ? std::exp(token.logits[token.idx[k]] - top) : T{0};
    sum += share[k];
  }
  for (int64_t k = 0; k < token.top_k; ++k)
    if (sum > 0) share[k] /= sum;
}

// weight holds the scores; dropped routes weigh nothing.
template <class T>
void weigh(const Token<T>& token, const RouteOptions& options, T* weight) {
  const Normalize normalize = normalize_of(options);
  if (by_sigmoid(options.gate)) return weigh_sigmoid(token, normalize, options.rule.scaling, weight);
  if (normalize != Normalize::none) {
    std::vector<T> share(token.top_k);
    shares(token, normalize, share.data());
    std::copy(share.begin(), share.end(), weight);
  }
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] < 0) weight[k] = 0;
}

void expects_options(const RouteOptions& o, int64_t tokens, int64_t experts) {
  const bool grouped = o.drop != Drop::none || o.group > 0;
  expects(o.top_k >= 1 && o.top_k <= experts, "route: top_k is between 1 and the number of experts");
  expects((o.gate != Gate::switch_top1 && o.gate != Gate::base) || o.top_k == 1,
          "route: the gate takes one expert per token");
  expects(o.gate != Gate::gshard || o.top_k == 2, "route: the gshard gate takes two experts per token");
  expects(!grouped || (o.group > 0 && tokens % o.group == 0), "route: the tokens are not equal gate groups");
  expects(o.drop == Drop::none || o.capacity >= 0, "route: a negative capacity");
}

template <class T>
void choose(const Rows<T>& rows, const Choice<T>& to) {
  switch (rows.options.gate) {
    case Gate::gshard: return choose_gshard(rows, to);
    case Gate::sigmoid: return choose_sigmoid(rows, to);
    case Gate::expert_choice: return choose_by_experts(rows, to);
    case Gate::base: return choose_balanced(rows, to);
    case Gate::hash: throw ContractError("route: the hash gate has no logits");
    default: choose_softmax(rows, to);
  }
}

}  // namespace

template <class T>
void give_all_slots(const Rows<T>& rows, const Choice<T>& choice, int64_t* slot) {
  const Capacity<T> capacity{rows, choice.score, choice.idx, slot};
  const int64_t group = rows.options.drop == Drop::none ? std::max<int64_t>(1, rows.tokens) : rows.group();
  for (int64_t t = 0; t < rows.tokens; t += group) give_slots(capacity, {t, t + group});
}

template void give_all_slots(const Rows<float>&, const Choice<float>&, int64_t*);
template void give_all_slots(const Rows<double>&, const Choice<double>&, int64_t*);

void route(const at::Tensor& logits_TE, const at::Tensor& mask_T, const RouteOptions& options, const Routes& to,
           const GateExtras& extras) {
  const int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(to.weight_TK.numel() == tokens * top_k && to.idx_TK.numel() == tokens * top_k &&
              to.slot_TK.numel() == tokens * top_k,
          "route: the outputs are [tokens, top_k]");
  const int64_t* mask = mask_of(mask_T, tokens);
  by_dtype(logits_TE, [&]<class T>(T) {
    const T* bias = extras.bias_E.defined() ? in<T>(extras.bias_E) : nullptr;
    const Rows<T> rows{in<T>(logits_TE), bias, mask, tokens, experts, options, extras};
    expects_finite(rows.logits, mask, tokens, experts);
    T* weight = out<T>(to.weight_TK);
    int64_t *idx = out<int64_t>(to.idx_TK), *slot = out<int64_t>(to.slot_TK);
    std::fill_n(idx, tokens * top_k, -1);
    std::fill_n(weight, tokens * top_k, T{0});
    choose<T>(rows, {idx, weight});
    give_all_slots<T>(rows, {idx, weight}, slot);
    for (int64_t t = 0; t < tokens; ++t)
      weigh<T>({rows.row(t), idx + t * top_k, slot + t * top_k, top_k}, options, weight + t * top_k);
  });
}

namespace {

// Normalised weights are a softmax over the routes that count, whatever the other logits.
template <class T>
void grad_of_shares(const Token<T>& token, Normalize normalize, const T* dweight, T* dlogits) {
  std::vector<T> share(token.top_k);
  shares(token, normalize, share.data());
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += share[k] * dweight[k];
  for (int64_t k = 0; k < token.top_k; ++k)
    if (share[k] > 0) dlogits[token.idx[k]] = share[k] * ((token.slot[k] >= 0 ? dweight[k] : T{0}) - mean);
}

template <class T>
void grad_of_probabilities(const Token<T>& token, const T* dweight, T* dlogits, int64_t experts) {
  std::vector<T> p(experts);
  softmax(token.logits, p.data(), experts);
  T mean = 0;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) mean += p[token.idx[k]] * dweight[k];
  for (int64_t e = 0; e < experts; ++e) dlogits[e] = -p[e] * mean;
  for (int64_t k = 0; k < token.top_k; ++k)
    if (token.slot[k] >= 0) dlogits[token.idx[k]] += p[token.idx[k]] * dweight[k];
}

template <class T>
void grad_of_weights(const Token<T>& token, const RouteOptions& options, const T* dweight, T* dlogits) {
  const Normalize normalize = normalize_of(options);
  if (by_sigmoid(options.gate))
    grad_of_sigmoid<T>(token, {normalize, options.rule.scaling, dweight, dlogits});
  else
    grad_of_shares(token, normalize, dweight, dlogits);
}

}  // namespace

void route_grad(const RouteGrad& grad, const RouteOptions& options, const at::Tensor& dlogits_TE) {
  int64_t tokens = grad.logits_TE.size(0), experts = grad.logits_TE.size(1), top_k = options.top_k;
  expects_options(options, tokens, experts);
  expects(dlogits_TE.sizes() == grad.logits_TE.sizes() && grad.dweight_TK.numel() == tokens * top_k &&
              grad.idx_TK.numel() == tokens * top_k && grad.slot_TK.numel() == tokens * top_k,
          "route_grad: logits, routes and gradients do not fit");
  by_dtype(grad.logits_TE, [&]<class T>(T) {
    const T *logits = in<T>(grad.logits_TE), *dweight = in<T>(grad.dweight_TK);
    const int64_t *idx = in<int64_t>(grad.idx_TK), *slot = in<int64_t>(grad.slot_TK);
    T* dlogits = out<T>(dlogits_TE);
    over_rows(tokens, 8 * experts, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        std::fill_n(dlogits + t * experts, experts, T{0});
        Token<T> token{logits + t * experts, idx + t * top_k, slot + t * top_k, top_k};
        if (std::all_of(token.idx, token.idx + top_k, [](int64_t e) { return e < 0; })) continue;
        if (normalize_of(options) == Normalize::none && !by_sigmoid(options.gate))
          grad_of_probabilities(token, dweight + t * top_k, dlogits + t * experts, experts);
        else
          grad_of_weights(token, options, dweight + t * top_k, dlogits + t * experts);
      }
    });
  });
}

}  // namespace plait::kernels
