#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

void choose_largest(const Call& c, const Route& op, int64_t first, int64_t last) {
  choose_first(c, op, first, last, [&](int64_t t) { return ranked(row(c.x(0), t)); });
}

// The softmax over the chosen; 0 for the others.
std::vector<double> scores_of_chosen(const PlainChoice& of, int64_t token) {
  std::vector<double> value = row(of.logits, token), chosen(value.size(), -INFINITY);
  for (int64_t route = token * of.op.top_k; route < (token + 1) * of.op.top_k; ++route)
    if (of.idx[route] >= 0) chosen[static_cast<size_t>(of.idx[route])] = value[static_cast<size_t>(of.idx[route])];
  return of.idx[token * of.op.top_k] < 0 ? std::vector<double>(value.size()) : softmax(chosen);
}

Over over_kept_where_asked(const Route& op) { return op.normalize == Normalize::after ? Over::kept : Over::nothing; }

constexpr PlainRoute kSoftmax{choose_largest, softmax_scores, pull_softmax, over_as_asked};
constexpr PlainRoute kTopkSoftmax{choose_largest, scores_of_chosen, pull_softmax, over_kept_where_asked};

}  // namespace

extern const PlainGate softmax_plain{.route = &kSoftmax, .topk_first = &kTopkSoftmax};

}  // namespace plait::oracle
