// Rows: counted, made and read back.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "base/errors.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {

namespace {

// Places move apart so that every cell of every chunk has `rows` rows.
void pad_cells(const Call& c, double rows) {
  const auto chunks = static_cast<int64_t>(c.out.size()) - 1;
  const int64_t cells = c.y(0).size() / chunks;
  for (int64_t h = 0; h < chunks; ++h) {
    const Array exact = c.y(h + 1);
    double first = 0;
    for (int64_t cell = 0; cell < cells; ++cell) {
      double& n = c.y(0)[h * cells + cell];
      expects(n <= rows, "no cell has more rows than the busiest");
      for (int64_t route = 0; route < exact.size(); ++route)
        if (exact[route] >= first && exact[route] < first + n)
          c.y(h + 1)[route] = static_cast<double>(cell) * rows + exact[route] - first;
      first += n;
      n = rows;
    }
  }
}

}  // namespace

void compute(const Call& c, const Count& op) {
  const int64_t k = op.routing.top_k, tokens = c.x(0).size() / k, experts = op.routing.experts,
                chunks = op.routing.chunks;
  const int64_t cells = c.y(0).size() / experts / chunks, block = std::max<int64_t>(tokens / cells, 1);
  expects(tokens % cells == 0, "the cells of a rank are equal blocks of its tokens");
  for (int64_t h = 0; h < chunks; ++h) {
    std::fill(c.y(h + 1).data.begin(), c.y(h + 1).data.end(), -1.0);
    double row = 0;
    for (int64_t e = 0; e < experts; ++e)
      for (int64_t cell = 0; cell < cells; ++cell)
        for (int64_t route = cell * block * k; route < (cell + 1) * block * k && route < c.x(0).size(); ++route) {
          if (c.x(1)[route] < 0 || c.x(0)[route] != static_cast<double>(e) || route / k % block * chunks / block != h)
            continue;
          c.y(0)[(h * experts + e) * cells + cell] += 1;
          c.y(h + 1)[route] = row++;
        }
  }
  if (c.in.size() == 3) pad_cells(c, *std::max_element(c.x(2).data.begin(), c.x(2).data.end()));
}

void compute(const Call& c, const Busiest& op) {
  const Routing& r = op.routing;
  int64_t cells = 1;  // of this rank's tokens: digits that they are not cut over
  for (Atom a : c.mesh.atoms())
    if (!c.type(0).find("T")->holds(a)) cells *= c.mesh.size(a);
  const int64_t tokens = c.x(0).size() / r.top_k, block = std::max<int64_t>(tokens / cells, 1);
  std::map<std::array<int64_t, 3>, double> rows;
  for (int64_t route = 0; route < c.x(0).size(); ++route) {
    const int64_t token = route / r.top_k;
    if (c.x(1)[route] < 0) continue;
    const auto expert = static_cast<int64_t>(c.x(0)[route]);
    c.y()[0] = std::max(c.y()[0], ++rows[{expert, token / block, token % block * r.chunks / block}]);
  }
}

void compute(const Call& c, const Nodes& op) {
  const int64_t k = c.x(0).shape.back(), most = c.y(0).shape.back(), tokens = c.x(0).shape[0];
  std::fill(c.y(0).data.begin(), c.y(0).data.end(), -1.0);
  std::fill(c.y(1).data.begin(), c.y(1).data.end(), -1.0);
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<double> seen;
    for (int64_t route = t * k; route < (t + 1) * k; ++route) {
      const bool kept = c.x(0)[route] >= 0 && c.x(1)[route] >= 0;
      c.y(2)[route] = kept ? c.x(0)[route] : -1;
      if (!kept) continue;
      const double node = std::floor(c.x(0)[route] * static_cast<double>(op.nodes) / static_cast<double>(op.experts));
      if (std::find(seen.begin(), seen.end(), node) != seen.end()) continue;
      c.y(0)[t * most + static_cast<int64_t>(seen.size())] = node;
      c.y(1)[t * most + static_cast<int64_t>(seen.size())] = 0;
      seen.push_back(node);
    }
  }
}

void compute(const Call& c, const CountWithin& op) {
  const int64_t k = op.routing.top_k, first = local_range(c.mesh, *c.out_types[0]->find("E"), c.rank).first;
  const int64_t nodes = local_size(c.mesh, *c.type(0).find("E")),
                experts = local_size(c.mesh, *c.out_types[0]->find("E"));
  const int64_t cells = c.x(1).size() / nodes, each = experts / nodes;
  std::fill(c.y(1).data.begin(), c.y(1).data.end(), -1.0);
  double place = 0;
  for (int64_t e = 0; e < experts; ++e)
    for (int64_t cell = 0; cell < cells; ++cell) {
      int64_t row = 0;  // the first of this cell of the node that has the expert
      const int64_t at = e / each * cells + cell;
      for (int64_t before = 0; before < at; ++before) row += static_cast<int64_t>(c.x(1)[before]);
      for (int64_t route = row * k; route < (row + static_cast<int64_t>(c.x(1)[at])) * k; ++route) {
        if (c.x(0)[route] != static_cast<double>(first + e)) continue;
        c.y(0)[e * cells + cell] += 1;
        c.y(1)[route] = place++;
      }
    }
}

void compute(const Call& c, const Arrange& op) {
  const Routing& r = op.routing;
  const int64_t groups = c.x(0).size() / r.top_k / r.group;
  for (int64_t route = 0; route < c.x(0).size(); ++route) {
    const double group = static_cast<double>(route / r.top_k / r.group);
    const bool here = c.x(1)[route] >= 0;
    expects(c.x(1)[route] < static_cast<double>(r.capacity), "a slot lies below the capacity");
    c.y()[route] =
        here ? (c.x(0)[route] * static_cast<double>(groups) + group) * static_cast<double>(r.capacity) + c.x(1)[route]
             : -1;
  }
}

namespace {

// Calls f(token, route, row) for each route that is here; rows and tokens are `width` elements.
void each_place(const Array& places, auto&& f) {
  const int64_t k = places.shape.back();
  for (int64_t route = 0; route < places.size(); ++route)
    if (places[route] >= 0) f(route / k, route, static_cast<int64_t>(places[route]));
}

size_t places_operand(const Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.type(i).role == Role::places) return i;
  throw ContractError("no places among the operands");
}

}  // namespace

void compute(const Call& c, const Encode&) {
  const size_t places = places_operand(c);
  const int64_t width = c.x(0).stride(0);
  each_place(c.x(places), [&](int64_t token, int64_t route, int64_t row) {
    const double w = places == 2 ? c.x(1)[route] : 1;
    for (int64_t i = 0; i < width; ++i) c.y()[row * width + i] += w * c.x(0)[token * width + i];
  });
}

void compute(const Call& c, const Decode&) {
  const size_t places = places_operand(c);
  const int64_t width = c.y().stride(0);
  each_place(c.x(places), [&](int64_t token, int64_t route, int64_t row) {
    const double w = places == 2 ? c.x(1)[route] : 1;
    for (int64_t i = 0; i < width; ++i) c.y()[token * width + i] += w * c.x(0)[row * width + i];
  });
}

void compute(const Call& c, const Pair&) {
  const int64_t width = c.x(0).stride(0);
  each_place(c.x(2), [&](int64_t token, int64_t route, int64_t row) {
    for (int64_t i = 0; i < width; ++i) c.y()[route] += c.x(0)[token * width + i] * c.x(1)[row * width + i];
  });
}

}  // namespace plait::oracle
