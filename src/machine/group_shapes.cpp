#include "machine/group_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "base/text.h"

namespace plait {
namespace {

std::vector<int> prime_factors(int n) {
  std::vector<int> factors;
  for (int p = 2; n > 1; ++p)
    for (; n % p == 0; n /= p) factors.push_back(p);
  return factors;
}

// All digits of the world, for each order of its prime factors.
std::vector<Digits> chains(int ranks) {
  std::vector<int> factors = prime_factors(ranks);
  std::vector<Digits> all;
  do {
    Digits digits;
    int stride = 1;
    for (int size : factors) {
      digits.push_back({size, stride});
      stride *= size;
    }
    all.push_back(std::move(digits));
  } while (std::ranges::next_permutation(factors).found);
  return all;
}

// The digits whose bit is set.
Digits chosen(const Digits& chain, unsigned bits) {
  Digits digits;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (!(bits >> i & 1)) continue;
    if (!digits.empty() && digits.back().size * digits.back().stride == chain[i].stride)
      digits.back().size *= chain[i].size;
    else
      digits.push_back(chain[i]);
  }
  return digits;
}

auto order(const Digits& digits) {
  std::vector<int> key = {num_ranks(digits)};
  for (const Digit& d : digits) key.insert(key.end(), {d.stride, d.size});
  return key;
}

void add_once(std::vector<Digits>& all, Digits digits) {
  const auto same = [&](const Digits& other) { return order(other) == order(digits); };
  if (std::ranges::none_of(all, same)) all.push_back(std::move(digits));
}

}  // namespace

int num_ranks(const Digits& digits) {
  int ranks = 1;
  for (const Digit& d : digits) ranks *= d.size;
  return ranks;
}

std::string text(const Digits& digits) {
  std::vector<std::string> parts;
  for (const Digit& d : digits)
    parts.push_back(d.stride == 1 ? std::to_string(d.size) : fmt::format("{} every {}", d.size, d.stride));
  return join(parts, " x ");
}

std::vector<Digits> group_shapes(int ranks) {
  expects(ranks >= 1, "a world has at least one rank");
  std::vector<Digits> all;
  for (const Digits& chain : chains(ranks))
    for (unsigned bits = 1; bits < 1u << chain.size(); ++bits) add_once(all, chosen(chain, bits));
  std::ranges::sort(all, {}, order);
  return all;
}

std::vector<int> members(const Digits& digits, int rank) {
  int first = rank;
  for (const Digit& d : digits) first -= rank / d.stride % d.size * d.stride;
  std::vector<int> all = {first};
  for (const Digit& d : digits) {
    const std::vector<int> faster = all;
    for (int i = 1; i < d.size; ++i)
      for (int r : faster) all.push_back(r + i * d.stride);
  }
  return all;
}

Reach reach(const Digits& digits, int ranks, int per_node) {
  expects(per_node >= 1 && ranks % per_node == 0, "nodes have equally many ranks");
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> group = members(digits, rank);
    if (group.front() / per_node != group.back() / per_node) return Reach::across_nodes;
  }
  return Reach::within_nodes;
}

std::vector<ShapePair> shape_pairs(int ranks, int per_node) {
  std::vector<ShapePair> pairs;
  for (const Digits& chain : chains(ranks)) {
    const unsigned end = 1u << chain.size();
    for (unsigned across = 1; across < end; ++across)
      for (unsigned within = 1; within < end; ++within) {
        if (across & within) continue;
        ShapePair pair{chosen(chain, across), chosen(chain, within)};
        if (reach(pair.across, ranks, per_node) != Reach::across_nodes ||
            reach(pair.within, ranks, per_node) != Reach::within_nodes)
          continue;
        const auto same = [&](const ShapePair& p) {
          return order(p.across) == order(pair.across) && order(p.within) == order(pair.within);
        };
        if (std::ranges::none_of(pairs, same)) pairs.push_back(std::move(pair));
      }
  }
  return pairs;
}

}  // namespace plait
