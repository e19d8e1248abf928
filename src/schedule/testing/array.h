// Arrays of the oracle: what one rank holds of a value, in float64 (integers too), and the way between a global array
// and what the ranks hold of it. Plain loops, nothing shared with the rooms that compute.
#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "schedule/type.h"

namespace plait::oracle {

// Row-major. A value with a jagged dim is [rows, dims right of it]: its cells one after the other.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> data;

  Array() : data(1, 0.0) {}
  explicit Array(std::vector<int64_t> shape);
  Array(std::vector<int64_t> shape, std::vector<double> data);

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t stride(size_t dim) const;  // elements between neighbours along dim
  double& operator[](int64_t i) { return data[i]; }
  double operator[](int64_t i) const { return data[i]; }
  bool operator==(const Array&) const = default;
};

using PerRank = std::vector<Array>;

// Ranks that should hold the same do not.
struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int64_t elements(std::span<const int64_t> shape);
Array concat(const std::vector<const Array*>& parts, size_t dim);
Array chunk(const Array& x, size_t dim, int64_t chunks, int64_t index);
void add_to(Array& sum, const Array& x);
double max_difference(const Array& a, const Array& b);  // infinite where the shapes differ or a NaN is met
Array normal_array(std::vector<int64_t> shape, const std::string& name, double scale);

// The dim of a rank's array in which a dim of the type lies.
size_t array_dim(const Type& type, const std::string& dim);

// How far ranks that hold a value I or R may differ: a rewritten sum may round otherwise, a copy may not.
enum class Agreement { same_bits, close };

PerRank spread(const Mesh& mesh, const Type& type, const Array& global);
// Throws Disagreement.
void expect_agreement(const Mesh& mesh, const Type& type, const PerRank& local, Agreement agreement);
// The global array. Throws Disagreement.
Array collect(const Mesh& mesh, const Type& type, PerRank local, Agreement agreement = Agreement::same_bits);

// The global indices of the cells that a rank holds, in its order.
std::vector<int64_t> cells(const Mesh& mesh, const std::vector<Dim>& prefix, int rank);

}  // namespace plait::oracle
