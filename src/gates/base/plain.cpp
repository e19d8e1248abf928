#include "schedule/testing/plain_route.h"

namespace plait::oracle {
namespace {

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
void choose(const Call& c, const Route&, int64_t first, int64_t last) {
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

constexpr PlainRoute kBase{choose, sigmoid_scores, pull_sigmoid, over_nothing};

}  // namespace

extern const PlainGate base_plain{.route = &kBase};

}  // namespace plait::oracle
