// Every gate in plain loops: scores, choice, who is kept, weights and their gradient.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "schedule/draws.h"
#include "schedule/testing/gate_score.h"

namespace plait::oracle {
namespace {

bool by_sigmoid(Gate gate) { return gate == Gate::sigmoid || gate == Gate::base; }

// The score of each expert from which weights are made.
std::vector<double> scores(const Array& logits, const Route& op, int64_t token) {
  if (!by_sigmoid(op.gate)) return softmax(logits, token);
  std::vector<double> s;
  for (int64_t e = 0; e < logits.shape.back(); ++e)
    s.push_back(1 / (1 + std::exp(-logits[token * logits.shape.back() + e])));
  return s;
}

double drawn(const Call& c, const Route& op, Draw purpose, int64_t index) {
  const int64_t experts = c.x(0).shape.back();
  const int64_t first = local_range(c.mesh, *c.type(0).find("T"), c.rank).first;
  const auto step = static_cast<int64_t>(c.in.back()->data[0]);
  return draw(draw_key(step, op.rule.stream, purpose), first * experts + index);
}

// Experts by falling value, equal ones by number.
std::vector<int64_t> ranked(const std::vector<double>& value) {
  std::vector<int64_t> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return value[a] > value[b]; });
  return order;
}

std::vector<double> with_gumbel(const Call& c, const Route& op, int64_t token, std::vector<double> value) {
  for (size_t e = 0; e < value.size(); ++e)
    value[e] +=
        gumbel(drawn(c, op, Draw::sample, token * static_cast<int64_t>(value.size()) + static_cast<int64_t>(e)));
  return value;
}

// Sigmoid scores with the bias; -inf outside the best groups.
std::vector<double> biased(const Call& c, const Route& op, int64_t token) {
  std::vector<double> s = scores(c.x(0), op, token);
  for (size_t e = 0; e < s.size(); ++e) s[e] += c.x(2)[static_cast<int64_t>(e)];
  const auto size = static_cast<int64_t>(s.size()) / op.rule.expert_groups;
  std::vector<double> best;
  for (int64_t g = 0; g < op.rule.expert_groups; ++g) {
    std::vector<double> group(s.begin() + g * size, s.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    best.push_back(group[0] + (size > 1 ? group[1] : 0));
  }
  const std::vector<int64_t> order = ranked(best);
  for (int64_t i = op.rule.kept_groups; i < op.rule.expert_groups; ++i)
    std::fill_n(s.begin() + order[i] * size, size, -INFINITY);
  return s;
}

std::vector<int64_t> chosen_by(const Call& c, const Route& op, int64_t token) {
  const int64_t experts = c.x(0).shape.back();
  std::vector<double> value(c.x(0).data.begin() + token * experts, c.x(0).data.begin() + (token + 1) * experts);
  if (op.gate == Gate::sigmoid) return ranked(biased(c, op, token));
  const std::vector<int64_t> plain = ranked(value);
  if (op.rule.sample == Sample::none) return plain;
  const std::vector<int64_t> drawn = ranked(with_gumbel(c, op, token, value));
  if (op.gate == Gate::switch_top1) return drawn;
  return {plain[0], drawn[0] == plain[0] ? drawn[1] : drawn[0]};
}

void choose_tokens(const Call& c, const Route& op, int64_t first, int64_t last) {  // each expert its own
  const int64_t experts = c.x(0).shape.back();
  for (int64_t e = 0; e < experts; ++e) {
    std::vector<double> p;
    for (int64_t t = first; t < last; ++t) p.push_back(c.x(1)[t] == 0 ? -1 : softmax(c.x(0), t)[e]);
    const std::vector<int64_t> order = ranked(p);
    for (int64_t i = 0; i < std::min<int64_t>(op.capacity, last - first); ++i)
      if (p[order[i]] >= 0) c.y(1)[(first + order[i]) * experts + e] = static_cast<double>(e);
  }
}

// The cheapest perfect matching of rows with columns, rows no more than columns (Kuhn 1955, by potentials): the column
// of each row.
std::vector<int64_t> matching(const std::vector<std::vector<double>>& cost) {
  const auto n = static_cast<int64_t>(cost.size()), m = n ? static_cast<int64_t>(cost[0].size()) : 0;
  std::vector<double> u(n + 1), v(m + 1);
  std::vector<int64_t> row(m + 1), way(m + 1);
  for (int64_t i = 1; i <= n; ++i) {
    row[0] = i;
    int64_t j0 = 0;
    std::vector<double> least(m + 1, INFINITY);
    std::vector<bool> used(m + 1);
    do {
      used[j0] = true;
      int64_t j1 = 0;
      double delta = INFINITY;
      for (int64_t j = 1; j <= m; ++j) {
        if (used[j]) continue;
        const double c = cost[row[j0] - 1][j - 1] - u[row[j0]] - v[j];
        if (c < least[j]) least[j] = c, way[j] = j0;
        if (least[j] < delta) delta = least[j], j1 = j;
      }
      for (int64_t j = 0; j <= m; ++j) used[j] ? (u[row[j]] += delta, v[j] -= delta) : least[j] -= delta;
      j0 = j1;
    } while (row[j0] != 0);
    for (; j0; j0 = way[j0]) row[j0] = row[way[j0]];
  }
  std::vector<int64_t> column(n);
  for (int64_t j = 1; j <= m; ++j)
    if (row[j]) column[row[j] - 1] = j - 1;
  return column;
}

// Equal shares with the greatest sum of logits: every expert has so many places that must be filled and one that may.
void share_out(const Call& c, int64_t first, int64_t last) {
  const int64_t experts = c.x(0).shape.back();
  std::vector<int64_t> tokens;
  for (int64_t t = first; t < last; ++t)
    if (c.x(1)[t] != 0) tokens.push_back(t);
  const auto share = static_cast<int64_t>(tokens.size()) / experts;
  std::vector<std::vector<double>> cost;
  for (int64_t t : tokens) {
    cost.emplace_back();
    for (int64_t place = 0; place < experts * (share + 1); ++place)
      cost.back().push_back(-c.x(0)[t * experts + place % experts] - (place / experts < share ? 1e6 : 0));
  }
  const std::vector<int64_t> places = matching(cost);
  for (size_t i = 0; i < tokens.size(); ++i) c.y(1)[tokens[i]] = static_cast<double>(places[i] % experts);
}

int64_t group_size(const Call& c, const Route& op) { return op.group ? op.group : std::max<int64_t>(c.x(1).size(), 1); }

void choose(const Call& c, const Route& op) {
  std::fill(c.y(1).data.begin(), c.y(1).data.end(), -1.0);
  if (op.gate == Gate::expert_choice || op.gate == Gate::base) {
    const int64_t group = group_size(c, op);
    for (int64_t t = 0; t < c.x(1).size(); t += group)
      op.gate == Gate::base ? share_out(c, t, t + group) : choose_tokens(c, op, t, t + group);
    return;
  }
  for (int64_t t = 0; t < c.x(1).size(); ++t) {
    if (c.x(1)[t] == 0) continue;
    const std::vector<int64_t> order = chosen_by(c, op, t);
    for (int64_t k = 0; k < op.top_k; ++k) c.y(1)[t * op.top_k + k] = static_cast<double>(order[k]);
  }
}

// What a route is worth to its expert.
double worth(const Call& c, const Route& op, int64_t route) {
  const int64_t token = route / op.top_k;
  const auto e = static_cast<int64_t>(c.y(1)[route]);
  if (op.drop == Drop::rts) return drawn(c, op, Draw::priority, token * c.x(0).shape.back() + e);
  const std::vector<double> s = scores(c.x(0), op, token);
  double sum = 1;
  if (op.gate == Gate::topk_softmax) {
    sum = 0;
    for (int64_t k = 0; k < op.top_k; ++k) sum += s[static_cast<int64_t>(c.y(1)[token * op.top_k + k])];
  }
  return s[e] / sum;
}

// Which of the routes that one expert has from one gate group it keeps, in order.
std::vector<int64_t> kept(const Call& c, const Route& op, std::vector<int64_t> all) {
  if (op.gate == Gate::gshard)
    std::stable_sort(all.begin(), all.end(), [](int64_t a, int64_t b) { return a % 2 < b % 2; });
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
    for (int64_t e = 0; e < c.x(0).shape.back(); ++e) {
      std::vector<int64_t> all;
      for (int64_t route = first * op.top_k; route < (first + group) * op.top_k; ++route)
        if (c.y(1)[route] == static_cast<double>(e)) all.push_back(route);
      double slot = 0;
      for (int64_t route : kept(c, op, all)) c.y(2)[route] = slot++;
    }
  }
}

// Over which routes a token's weights are divided.
enum class Over { nothing, chosen, kept };

Over over(const Route& op) {
  if (op.gate == Gate::switch_top1 || op.gate == Gate::expert_choice || op.gate == Gate::base) return Over::nothing;
  if (op.gate == Gate::gshard) return Over::kept;
  if (op.normalize == Normalize::none) return op.gate == Gate::topk_softmax ? Over::chosen : Over::nothing;
  return op.normalize == Normalize::before ? Over::chosen : Over::kept;
}

// The routes of a token and the scores they are divided by.
struct Shares {
  const Route& op;
  const Array &idx, &slot;
  int64_t token;
  const std::vector<double>& s;

  bool counts(int64_t route) const {
    return idx[route] >= 0 && over(op) != Over::nothing && (over(op) == Over::chosen || slot[route] >= 0);
  }
  double sum() const {
    if (over(op) == Over::nothing) return 1;
    double sum = 0;
    for (int64_t route = token * op.top_k; route < (token + 1) * op.top_k; ++route)
      if (counts(route)) sum += s[static_cast<int64_t>(idx[route])];
    return sum;
  }
};

double scaling(const Route& op) { return op.gate == Gate::sigmoid ? op.rule.scaling : 1; }

}  // namespace

void compute(const Call& c, const Route& op) {
  choose(c, op);
  give_slots(c, op);
  for (int64_t t = 0; t < c.x(1).size(); ++t) {
    const std::vector<double> s = scores(c.x(0), op, t);
    const double sum = Shares{op, c.y(1), c.y(2), t, s}.sum();
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route)
      if (c.y(2)[route] >= 0) c.y(0)[route] = scaling(op) * s[static_cast<int64_t>(c.y(1)[route])] / sum;
  }
}

void compute(const Call& c, const HashRoute& op) {
  const int64_t tokens = c.x(0).size(), group = op.group ? op.group : std::max<int64_t>(tokens, 1);
  for (int64_t first = 0; first < tokens; first += group) {
    std::vector<int64_t> load(op.experts, 0);
    for (int64_t route = first * op.top_k; route < (first + group) * op.top_k; ++route) {
      const int64_t t = route / op.top_k, e = (static_cast<int64_t>(c.x(0)[t]) + route % op.top_k) % op.experts;
      const bool real = c.x(1)[t] != 0, kept = real && (op.capacity == 0 || load[e] < op.capacity);
      c.y(1)[route] = real ? static_cast<double>(e) : -1;
      c.y(2)[route] = kept ? static_cast<double>(load[e]++) : -1;
      c.y(0)[route] = kept ? 1 / static_cast<double>(op.top_k) : 0;
    }
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
  const int64_t experts = c.x(0).shape.back();
  for (int64_t t = 0; t < idx.shape[0]; ++t) {
    const std::vector<double> s = scores(c.x(0), op, t);
    const Shares shares{op, idx, slot, t, s};
    const double sum = shares.sum();
    double pull = 0;  // sum over kept routes of dweight * weight
    std::vector<double> ds(experts, 0.0);
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route) {
      if (slot[route] < 0) continue;
      const auto e = static_cast<int64_t>(idx[route]);
      ds[e] += scaling(op) * dweight[route] / sum;
      pull += scaling(op) * dweight[route] * s[e] / sum;
    }
    for (int64_t route = t * op.top_k; route < (t + 1) * op.top_k; ++route)
      if (shares.counts(route)) ds[static_cast<int64_t>(idx[route])] -= pull / sum;
    const double mean = by_sigmoid(op.gate) ? 0 : std::inner_product(s.begin(), s.end(), ds.begin(), 0.0);
    for (int64_t e = 0; e < experts; ++e)
      c.y()[t * experts + e] = (by_sigmoid(op.gate) ? s[e] * (1 - s[e]) : s[e]) * (ds[e] - mean);
  }
}

}  // namespace plait::oracle
