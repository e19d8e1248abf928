#include "tune/explanation.h"

#include <fmt/format.h>

#include <set>

#include "base/table.h"

namespace plait {
namespace {

constexpr size_t kRunnersUp = 5;

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string ratio(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:.2f}", predicted / measured) : "";
}

// Those that were tried, the fastest ones, and the best of each family.
std::string choice_text(const ChosenSchedule& chosen) {
  const auto tried = [](const Choice& c) { return c.measured > 0; };
  const bool any = std::ranges::any_of(chosen.choices, tried);
  std::vector<std::string> header = {"", "schedule of a layer", "predicted ms"};
  if (any) header.insert(header.end(), {"tried ms", "predicted/tried"});
  Table table(header);
  std::set<const FamilySpec*> seen;
  for (size_t i = 0; i < chosen.choices.size(); ++i) {
    const Choice& c = chosen.choices[i];
    if (!seen.insert(c.candidate.family).second && i > kRunnersUp && !tried(c)) continue;
    std::vector<std::string> cells = {std::to_string(i + 1), to_string(c.candidate), ms(c.seconds)};
    if (any) cells.insert(cells.end(), {tried(c) ? ms(c.measured) : "", ratio(c.seconds, c.measured)});
    table.row(std::move(cells));
  }
  return fmt::format("{}, the first of {}:\n{}\n", choice_title(chosen), chosen.choices.size(), table.str());
}

}  // namespace

std::string choice_title(const ChosenSchedule& chosen) {
  switch (chosen.by) {
    case ChosenSchedule::By::trial: return "schedule found by trial";
    case ChosenSchedule::By::checkpoint: return "schedule that the checkpoint was written by";
    case ChosenSchedule::By::prediction: break;
  }
  return fmt::format("schedule chosen on {}", chosen.run.machine.name);
}

std::string explanation_text(const ChosenSchedule& chosen, const Explanation& e) {
  const bool measured = e.measured > 0;
  std::vector<std::string> header = {"kind of step", "steps", "predicted ms"};
  if (measured) header.insert(header.end(), {"measured ms", "predicted/measured"});
  Table table(header);
  const auto row = [&](std::string name, std::string steps, double predicted, double seconds) {
    std::vector<std::string> cells = {std::move(name), std::move(steps), ms(predicted)};
    if (measured) cells.insert(cells.end(), {ms(seconds), ratio(predicted, seconds)});
    table.row(std::move(cells));
  };
  double sum = 0, seen = e.waiting;
  for (const ExplainedKind& k : e.kinds) {
    row(k.kind, std::to_string(k.steps), k.predicted, k.measured);
    sum += k.predicted;
    seen += k.measured;
  }
  if (measured) row("waiting for others", "", 0, e.waiting);
  row("all, one after another", "", sum, seen);
  row("the whole step", "", e.predicted, e.measured);
  return (chosen.choices.empty() ? "" : choice_text(chosen)) + table.str();
}

}  // namespace plait
