// A few numbers that stand for many.
#pragma once
#include <vector>

namespace plait {

// Below it lies this share of the values; between two of them in proportion. REQUIRES a value, as all of these do.
double percentile(std::vector<double> values, double share);

// The middle one, or the mean of the two.
double median(std::vector<double> values);

struct Quartiles {
  double low = 0, median = 0, high = 0;
};
Quartiles quartiles(std::vector<double> values);

}  // namespace plait
