// How an einsum of two operands lowers to one (batched, grouped) matrix product: every dim is a batch, row, column or
// summed label, and each operand must hold each kind as one contiguous run, batch first.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace plait {

struct Contraction {
  std::vector<std::string> batch, row, column, sum;  // row: only in `a`; column: only in `b`
  bool swapped = false;                              // a is the second operand of the einsum
  bool a_transposed = false;                         // a is [batch, sum, row], else [batch, row, sum]
  bool b_transposed = false;                         // b is [batch, column, sum], else [batch, sum, column]
};

// nullopt where the dims do not form such runs.
std::optional<Contraction> contraction(const std::vector<std::string>& a, const std::vector<std::string>& b,
                                       const std::vector<std::string>& out);

}  // namespace plait
