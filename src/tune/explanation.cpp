#include "tune/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/table.h"
#include "base/units.h"

namespace plait {
namespace {

constexpr size_t kRunnersUp = 5;

std::string ms(double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); }

std::string ratio(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:.2f}", predicted / measured) : "";
}

// Why a choice stands before one that is faster: of those that are as good as the fastest the simplest is taken. Empty
// where no choice behind it is.
std::string reason(const ChosenSchedule& chosen, size_t place) {
  const std::vector<Choice>& all = chosen.choices;
  const bool tried = all[place].measured > 0;
  const auto shown = [&](const Choice& c) { return std::llround(1e6 * (tried ? c.measured : c.seconds)); };
  const bool first = std::all_of(all.begin() + static_cast<long>(place) + 1, all.end(), [&](const Choice& c) {
    return (tried && c.measured <= 0) || shown(c) >= shown(all[place]);
  });
  if (place == 0 && chosen.by == ChosenSchedule::By::checkpoint) return "the checkpoint's";
  return first ? "" : fmt::format("fewest parts of those within {}", percent(tried ? kAlikeTried : kAlike, 0));
}

// Those that were tried, the fastest ones, and the best of each family.
std::string choice_text(const ChosenSchedule& chosen) {
  const auto tried = [](const Choice& c) { return c.measured > 0; };
  const bool any = std::ranges::any_of(chosen.choices, tried);
  std::vector<std::string> header = {"", "schedule of a layer", "predicted ms"};
  if (any) header.insert(header.end(), {"tried ms", "predicted/tried"});
  header.emplace_back("");
  Table table(header);
  std::set<const FamilySpec*> seen;
  for (size_t i = 0; i < chosen.choices.size(); ++i) {
    const Choice& c = chosen.choices[i];
    if (!seen.insert(c.candidate.family).second && i > kRunnersUp && !tried(c)) continue;
    std::vector<std::string> cells = {std::to_string(i + 1), to_string(c.candidate), ms(c.seconds)};
    if (any) cells.insert(cells.end(), {tried(c) ? ms(c.measured) : "", ratio(c.seconds, c.measured)});
    cells.push_back(reason(chosen, i));
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

std::string beyond_measured(const Machine& machine, int ranks) {
  if (machine.ranks == 0 || ranks <= machine.ranks) return "";
  return fmt::format("this is of {} ranks: what messages among more than {} cost is a guess", ranks, machine.ranks);
}

std::string machine_text(const Machine& machine, int ranks) {
  if (machine.ranks == 0)
    return fmt::format("machine: {}, a guess: nothing was measured (`plait bench collectives --out FILE` measures)",
                       machine.name);
  const std::string beyond = beyond_measured(machine, ranks);
  return fmt::format("machine: {}, measured on {} ranks{}{}", machine.name, machine.ranks, beyond.empty() ? "" : "; ",
                     beyond);
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
  return fmt::format("{}\n\n{}{}", machine_text(chosen.run.machine, static_cast<int>(num_ranks(chosen.run.config))),
                     chosen.choices.empty() ? "" : choice_text(chosen), table.str());
}

}  // namespace plait
