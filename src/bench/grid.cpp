#include "bench/grid.h"

#include <fmt/format.h>

#include <algorithm>

namespace plait {
namespace {

// Small enough for links of 200 mbit and a core a rank: rows of a message take 10 KB to 2 MB.
struct Shape {
  int64_t B, S, D, F, K;
  double factor;
};
constexpr Shape kShapes[] = {
    {1, 64, 128, 256, 1, 0},    {1, 64, 256, 512, 2, 0},    {2, 64, 128, 512, 2, 0},    {1, 128, 256, 1024, 1, 0},
    {2, 128, 256, 512, 1, 0},   {2, 128, 128, 1024, 2, 0},  {1, 64, 256, 256, 2, 1.0},  {2, 64, 128, 512, 2, 1.2},
    {1, 128, 256, 1024, 1, 2.}, {2, 128, 128, 256, 2, 2.0}, {1, 128, 512, 512, 2, 1.2}, {4, 64, 256, 256, 2, 2.0},
};
constexpr size_t kQuick[] = {2, 8};

struct Pair {
  int tp, esp;
};
constexpr Pair kPairs[] = {{1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}, {4, 4}};

// As many experts as ranks that share them out, and no fewer than a gate can choose from. With a capacity as few as
// may be: then an expert mostly has room for all tokens of a group, which `parm` asks for.
int64_t experts(const Shape& shape, int ep) { return std::max<int64_t>(shape.factor > 0 ? 2 : 4, ep); }

GridLayer layer(const Pair& pair, int ranks, size_t number) {
  const Shape& s = kShapes[number];
  const int ep = ranks / pair.esp;
  return {.id = fmt::format("t{}e{}-{:02}", pair.tp, pair.esp, number + 1),
          .ranks = ranks,
          .tp = pair.tp,
          .esp = pair.esp,
          .ep = ep,
          .sequences = s.B,
          .positions = s.S,
          .width = s.D,
          .hidden = s.F,
          .experts = experts(s, ep),
          .top_k = s.K,
          .factor = s.factor};
}

}  // namespace

std::string GridLayer::title() const {
  return fmt::format("{} x {} of {}, {} experts of {}, top-{}, {}", sequences, positions, width, experts, hidden, top_k,
                     factor > 0 ? fmt::format("factor {:.1f}", factor) : "nothing dropped");
}

std::vector<GridLayer> grid_layers(int ranks, GridSize size) {
  std::vector<GridLayer> all;
  for (const Pair& pair : kPairs)
    for (size_t number = 0; number < std::size(kShapes); ++number) {
      const bool quick = std::ranges::find(kQuick, number) != std::end(kQuick);
      if (ranks % std::max(pair.tp, pair.esp) == 0 && (size == GridSize::full || quick))
        all.push_back(layer(pair, ranks, number));
    }
  return all;
}

}  // namespace plait
