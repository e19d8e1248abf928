#include "margin.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/random.h"
#include "gates/all/kernel.h"
#include "gates/all/record.h"
#include "gates/sigmoid/record.h"
#include "gates/softmax/record.h"

namespace plait::kernels {
namespace {

constexpr int kDraws = 64;

GatedTokens in_float64(GatedTokens gated) {
  gated.logits_TE = gated.logits_TE.to(at::kDouble).contiguous();
  if (gated.extras.bias_E.defined()) gated.extras.bias_E = gated.extras.bias_E.to(at::kDouble).contiguous();
  return gated;
}

Routes routed(const GatedTokens& g, const at::Tensor& logits_TE) {
  const std::vector<int64_t> shape = {logits_TE.size(0), g.options.top_k};
  Routes routes{at::empty(shape, at::kDouble), at::empty(shape, at::kLong), at::empty(shape, at::kLong)};
  route(logits_TE, g.mask_T, g.options, routes, g.extras);
  return routes;
}

at::Tensor moved(const at::Tensor& logits_TE, double margin, uint64_t draw) {
  const at::Tensor to = logits_TE.clone();
  const uint64_t key = random_key(draw, "margin");
  for (int64_t i = 0; i < to.numel(); ++i)
    to.data_ptr<double>()[i] += uniform(key, static_cast<uint64_t>(i)) < 0.5 ? margin : -margin;
  return to;
}

// The first token that goes elsewhere, -1 for none.
int64_t first_other(const at::Tensor& a_TK, const at::Tensor& b_TK) {
  for (int64_t r = 0; r < a_TK.numel(); ++r)
    if (a_TK.const_data_ptr<int64_t>()[r] != b_TK.const_data_ptr<int64_t>()[r]) return r / a_TK.size(1);
  return -1;
}

// What an expert ranks its routes by, where it drops the least.
double score(const GatedTokens& g, const Routes& routes, int64_t route) {
  const int64_t experts = g.logits_TE.size(1), top_k = g.options.top_k;
  const double* logits = g.logits_TE.const_data_ptr<double>() + route / top_k * experts;
  const int64_t* idx = routes.idx_TK.const_data_ptr<int64_t>();
  const double mine = logits[idx[route]];
  if (g.options.gate == &sigmoid_route || g.options.gate == base_gate.route) return 1 / (1 + std::exp(-mine));
  double sum = 0;
  if (g.options.gate == &topk_softmax_route)
    for (int64_t r = route / top_k * top_k; r < (route / top_k + 1) * top_k; ++r)
      sum += std::exp(logits[idx[r]] - mine);
  else
    for (int64_t e = 0; e < experts; ++e) sum += std::exp(logits[e] - mine);
  return 1 / sum;
}

struct Border {
  double kept = INFINITY, dropped = 0;
};

std::string near_drop(const GatedTokens& g, const Routes& routes, double margin) {
  std::map<std::pair<int64_t, int64_t>, Border> borders;  // by group and expert
  for (int64_t r = 0; r < routes.idx_TK.numel(); ++r) {
    const int64_t e = routes.idx_TK.const_data_ptr<int64_t>()[r];
    if (e < 0) continue;
    Border& border = borders[{r / g.options.top_k / g.options.group, e}];
    const double s = score(g, routes, r);
    const bool kept = routes.slot_TK.const_data_ptr<int64_t>()[r] >= 0;
    kept ? border.kept = std::min(border.kept, s) : border.dropped = std::max(border.dropped, s);
  }
  for (const auto& [where, border] : borders)
    if (border.dropped > 0 && border.kept - border.dropped <= margin * border.kept)
      return fmt::format("expert {} keeps a route of score {:.17g} of group {} and drops one of {:.17g}", where.second,
                         border.kept, where.first, border.dropped);
  return {};
}

}  // namespace

std::string near_choice(const GatedTokens& given, double margin) {
  const GatedTokens g = in_float64(given);
  const Routes routes = routed(g, g.logits_TE);
  for (uint64_t draw = 0; draw < kDraws; ++draw)
    if (const int64_t t = first_other(routes.idx_TK, routed(g, moved(g.logits_TE, margin, draw)).idx_TK); t >= 0)
      return fmt::format("token {} chooses otherwise when logits move by {:.1e}", t, margin);
  return g.options.drop == Drop::probs && g.options.gate->chooser != Chooser::expert ? near_drop(g, routes, margin)
                                                                                     : "";
}

}  // namespace plait::kernels
