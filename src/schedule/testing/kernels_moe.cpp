// Rows: counted, made and read back.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/errors.h"
#include "schedule/testing/kernels.h"

namespace plait::oracle {

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
