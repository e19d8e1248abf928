// The gate in plain loops: the choice as each gate says it, who is kept, weights and their gradient.
#include "base/errors.h"
#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

int64_t group_size(const Call& c, const Route& op) { return op.group ? op.group : std::max<int64_t>(c.x(1).size(), 1); }

void choose(const Call& c, const Route& op) {
  std::fill(c.y(1).data.begin(), c.y(1).data.end(), -1.0);
  const int64_t group = group_size(c, op);
  for (int64_t t = 0; t < c.x(1).size(); t += group) plain_of(*op.gate).choose(c, op, t, t + group);
}

// What a route is worth to its expert.
double worth(const Call& c, const Route& op, int64_t route) {
  const int64_t token = route / op.top_k;
  const auto e = static_cast<int64_t>(c.y(1)[route]);
  if (op.drop == Drop::rts) return drawn(c, op, Draw::priority, token * num_experts(c.x(0)) + e);
  return plain_of(*op.gate).scores({op, c.x(0), c.y(1)}, token)[e];
}

// Which of the routes that one expert has from one gate group it keeps, in order.
std::vector<int64_t> kept(const Call& c, const Route& op, std::vector<int64_t> all) {
  if (op.gate->queue == Queue::by_choice)
    std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return a % op.top_k < b % op.top_k; });
  if (op.drop == Drop::none || static_cast<int64_t>(all.size()) <= op.capacity) return all;
  if (op.drop != Drop::position)
    std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return worth(c, op, a) > worth(c, op, b); });
  all.resize(op.capacity);
  if (op.drop != Drop::position) std::sort(all.begin(), all.end());
  return all;
}

void give_slots(const Call& c, const Route& op) {
  const int64_t tokens = c.x(1).size(), group = group_size(c, op);
  std::fill(c.y(2).data.begin(), c.y(2).data.end(), -1.0);
  for (int64_t first = 0; first < tokens; first += group) {
    for (int64_t e = 0; e < num_experts(c.x(0)); ++e) {
      std::vector<int64_t> all;
      for (int64_t route = first * op.top_k; route < (first + group) * op.top_k; ++route)
        if (c.y(1)[route] == static_cast<double>(e)) all.push_back(route);
      double slot = 0;
      for (int64_t route : kept(c, op, all)) c.y(2)[route] = slot++;
    }
  }
}

// The routes of a token and the scores they are divided by.
struct Shares {
  const Route& op;
  const Array &idx, &slot;
  int64_t token;
  const std::vector<double>& s;
  Over over = plain_of(*op.gate).over(op);

  bool counts(int64_t route) const {
    return idx[route] >= 0 && over != Over::nothing && (over == Over::chosen || slot[route] >= 0);
  }
  double sum() const {
    if (over == Over::nothing) return 1;
    double sum = 0;
    for (int64_t route = token * op.top_k; route < (token + 1) * op.top_k; ++route)
      if (counts(route)) sum += s[static_cast<int64_t>(idx[route])];
    return sum;
  }
};

}  // namespace

void compute(const Call& c, const Route& op) {
  choose(c, op);
  give_slots(c, op);
  for (int64_t t = 0; t < c.x(1).size(); ++t) {
    const std::vector<double> s = plain_of(*op.gate).scores({op, c.x(0), c.y(1)}, t);
    const double sum = Shares{op, c.y(1), c.y(2), t, s}.sum();
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route)
      if (c.y(2)[route] >= 0) c.y(0)[route] = op.rule.scaling * s[static_cast<int64_t>(c.y(1)[route])] / sum;
  }
}

void compute(const Call& c, const Jitter& op) {
  const int64_t width = c.x(0).shape[1], columns = c.type(0).dims[1].size;
  const int64_t first = local_range(c.mesh, c.type(0).dims[0], c.rank).first,
                column = local_range(c.mesh, c.type(0).dims[1], c.rank).first;
  const uint64_t key = draw_key(static_cast<int64_t>(c.x(1)[0]), op.stream, Draw::jitter);
  for (int64_t i = 0; i < c.x(0).size(); ++i)
    c.y()[i] = c.x(0)[i] * (1 + op.amount * (2 * draw(key, (first + i / width) * columns + column + i % width) - 1));
}

void compute(const Call& c, const BalanceBias& op) {
  const double mean = std::accumulate(c.x(1).data.begin(), c.x(1).data.end(), 0.0) / static_cast<double>(c.x(1).size());
  for (int64_t e = 0; e < c.x(0).size(); ++e)
    c.y()[e] = c.x(0)[e] + op.rate * static_cast<double>((c.x(1)[e] < mean) - (c.x(1)[e] > mean));
}

void compute(const Call& c, const RouteGrad& grad) {
  const Route& op = grad.route;
  const Array &idx = c.x(1), &slot = c.x(2), &dweight = c.x(3);
  const int64_t experts = num_experts(c.x(0));
  for (int64_t t = 0; t < idx.shape[0]; ++t) {
    const std::vector<double> s = plain_of(*op.gate).scores({op, c.x(0), idx}, t);
    const Shares shares{op, idx, slot, t, s};
    const double sum = shares.sum();
    double pull = 0;  // sum over kept routes of dweight * weight
    std::vector<double> ds(experts, 0.0);
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route) {
      if (slot[route] < 0) continue;
      const auto e = static_cast<int64_t>(idx[route]);
      ds[e] += op.rule.scaling * dweight[route] / sum;
      pull += op.rule.scaling * dweight[route] * s[e] / sum;
    }
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route)
      if (shares.counts(route)) ds[static_cast<int64_t>(idx[route])] -= pull / sum;
    const std::vector<double> dlogits = plain_of(*op.gate).pull(s, ds);
    std::copy(dlogits.begin(), dlogits.end(), c.y().data.begin() + t * experts);
  }
}

}  // namespace plait::oracle
