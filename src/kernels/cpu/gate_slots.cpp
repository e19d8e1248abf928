// Who is dropped where an expert is full, and the places of those who are not.
#include "kernels/cpu/gate_rows.h"

namespace plait::kernels {
namespace {

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

  // Routes in the order in which they queue.
  template <class Body>
  void each(const Group& group, Body body) const {
    const int64_t k = rows.options.top_k;
    if (rows.options.gate->queue == Queue::by_token)
      for (int64_t r = group.begin * k; r < group.end * k; ++r) body(r);
    else
      for (int64_t choice = 0; choice < k; ++choice)
        for (int64_t t = group.begin; t < group.end; ++t) body(t * k + choice);
  }
};

// Of the routes to one expert those that it keeps, in their order: the ones with the greatest keys, of equal keys the
// first.
template <class Key>
std::vector<int64_t> greatest(const std::vector<int64_t>& routes, int64_t kept, Key key) {
  std::vector<std::pair<double, int64_t>> keyed;
  for (int64_t r : routes) keyed.emplace_back(key(r), r);
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int64_t> best(kept);
  for (int64_t i = 0; i < kept; ++i) best[i] = keyed[i].second;
  std::sort(best.begin(), best.end());
  return best;
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
    if (options.drop == Drop::probs && kept < size)
      routes = greatest(routes, kept, [&](int64_t r) { return c.score[r]; });
    if (options.drop == Drop::rts && kept < size)
      routes = greatest(routes, kept, [&](int64_t r) { return c.rows.extras.priority.uniform(r / options.top_k, e); });
    for (int64_t i = 0; i < kept; ++i) c.slot[routes[i]] = i;
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

}  // namespace plait::kernels
