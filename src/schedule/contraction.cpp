#include "schedule/contraction.h"

#include <algorithm>

namespace plait {
namespace {

using Labels = std::vector<std::string>;

bool has(const Labels& labels, const std::string& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Labels chain(const Labels& x, const Labels& y, const Labels& z = {}) {
  Labels all = x;
  all.insert(all.end(), y.begin(), y.end());
  all.insert(all.end(), z.begin(), z.end());
  return all;
}

std::optional<Contraction> ordered(const Labels& a, const Labels& b, const Labels& out) {
  Contraction c;
  for (const auto& d : a) (has(b, d) ? (has(out, d) ? c.batch : c.sum) : c.row).push_back(d);
  for (const auto& d : b)
    if (!has(a, d)) c.column.push_back(d);
  if (out != chain(c.batch, c.row, c.column)) return std::nullopt;
  c.a_transposed = a != chain(c.batch, c.row, c.sum);
  c.b_transposed = b != chain(c.batch, c.sum, c.column);
  if (c.a_transposed && a != chain(c.batch, c.sum, c.row)) return std::nullopt;
  if (c.b_transposed && b != chain(c.batch, c.column, c.sum)) return std::nullopt;
  return c;
}

// The digit of a chunk of rows has one value in a product: it never matters where it stands.
Labels without_chunk(Labels labels) {
  std::erase(labels, "h");
  return labels;
}

}  // namespace

std::optional<Contraction> contraction(const Labels& with_a, const Labels& with_b, const Labels& with_out) {
  const Labels a = without_chunk(with_a), b = without_chunk(with_b), out = without_chunk(with_out);
  if (auto c = ordered(a, b, out)) return c;
  auto c = ordered(b, a, out);
  if (c) c->swapped = true;
  return c;
}

}  // namespace plait
