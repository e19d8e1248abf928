#include "bench/ted_tables.h"

#include <fmt/format.h>

#include <string>

#include "base/table.h"
#include "bench/ted_memory.h"

namespace plait {
namespace {

std::string gb(double bytes) { return fmt::format("{:.2f}", bytes / 1e9); }
std::string billions(double parameters) { return fmt::format("{:.2f}", parameters / 1e9); }

struct Shape {
  const char* name;
  double nominal;
  int64_t layers, width;
};
constexpr Shape kShapes[] = {
    {"1.3B", 1.3e9, 24, 2048}, {"2.7B", 2.7e9, 32, 2560}, {"6.7B", 6.7e9, 32, 4096}, {"13B", 13e9, 40, 5120}};

std::string states() {
  Table table({"base", "parameters", "tp", "TED", "4-byte sums", "4-byte sums, scattered"});
  for (const Shape& shape : kShapes)
    for (const double base : {shape.nominal, ted_model(shape.layers, shape.width, 16).base})
      for (int tp : {1, 2, 4}) {
        const auto at = [&](const StateBytes& each) {
          return gb(state_bytes({base, 16}, {.ranks = 128, .tp = tp, .ep = 16}, each));
        };
        table.row({shape.name, billions(base), std::to_string(tp), at(kTed), at(kWideSums), at(kScatteredSums)});
      }
  return table.str();
}

std::string largest() {
  Table table({"rank", "tp", "128 data ranks", "ranks without end", "to tp 1"});
  for (int memory : {16, 40})
    for (int tp : {1, 2, 4, 6, 8}) {
      const double base = largest_base(memory * 1e9, {.ranks = 128 * tp, .tp = tp, .ep = 16}, 16);
      const double one = largest_base(memory * 1e9, {.ranks = 128, .tp = 1, .ep = 16}, 16);
      table.row({fmt::format("{} GB", memory), std::to_string(tp), billions(base),
                 billions(largest_base(memory * 1e9, tp)), fmt::format("{:.2f}x", base / one)});
    }
  return table.str();
}

std::string spikes() {
  Table table({"base", "experts", "ranks", "not tiled", "tiles of 178,956,971"});
  struct Row {
    const char* name;
    double base;
    int experts;
  };
  for (const Row& row : {Row{"2.7B", 2.7e9, 32}, Row{"6.7B", 6.7e9, 16}}) {
    const TedModel model{row.base, row.experts};
    const TedRanks ranks{.ranks = 32, .tp = 1, .ep = 16};
    table.row({row.name, std::to_string(row.experts), "32", gb(optimizer_spike(model, ranks, 0)),
               gb(optimizer_spike(model, ranks, kTile))});
  }
  return table.str();
}

}  // namespace

std::string ted_tables() {
  return fmt::format(
      "GB of states of a rank, 16 experts, 128 ranks, ep 16:\n\n{}\n"
      "billions of parameters of the largest base model, 16 experts, ep 16:\n\n{}\n"
      "GB of 4-byte gradients that the update makes at once:\n\n{}",
      states(), largest(), spikes());
}

}  // namespace plait
