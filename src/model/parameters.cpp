#include "model/parameters.h"

#include <fmt/format.h>

namespace plait {

std::string to_string(const Init& init) {
  if (const auto* drawn = std::get_if<Normal>(&init)) return fmt::format("deviation {}", drawn->deviation);
  return std::holds_alternative<Ones>(init) ? "ones" : "zeros";
}

int64_t num_elements(const Parameter& p) {
  int64_t n = 1;
  for (const Dim& dim : p.dims) n *= dim.size;
  return n;
}

std::string layer_name(int64_t layer, const std::string& part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

Parameter in_layer(int64_t layer, Parameter p) {
  p.name = layer_name(layer, p.name);
  p.layer = layer;
  return p;
}

}  // namespace plait
