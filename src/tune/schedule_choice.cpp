#include "tune/schedule_choice.h"

#include "base/errors.h"
#include "checkpoint/checkpoint.h"
#include "train/agreement.h"
#include "train/memory.h"
#include "train/run_shape.h"
#include "train/texts.h"
#include "wire/ranks.h"

namespace plait {
namespace {

// What "auto" must compute.
Config reference(const Config& config) {
  Config c = config;
  c.schedule.moe = &reference_family(config);
  c.schedule.fuse = Fusing::by_family;
  c.schedule.chunks = c.schedule.chunks_backward = 1;
  return c;
}

Config asking_for(const Config& config, const Candidate& candidate) {
  Config c = reference(config);
  const int64_t group = gate_group(c);
  c.schedule.moe = candidate.family;
  if (candidate.family->can_fuse()) c.schedule.fuse = candidate.fuse == Fuse::yes ? Fusing::yes : Fusing::no;
  c.schedule.chunks = candidate.chunks;
  c.schedule.chunks_backward = candidate.chunks_backward;
  c.schedule.lanes = candidate.lanes.has_value();
  if (c.schedule.lanes) c.schedule.order = StepOrder::overlap;
  if ((c.moe.capacity || c.moe.gate->route->chooser == Chooser::group) && gate_group(c) != group) c.moe.group = group;
  return c;
}

// The rules of configs know more than `legal`: what a key can say.
bool computes_the_same(const Config& config, const ModelSizes& right) {
  try {
    validate(config);
  } catch (const InputError&) {
    return false;
  }
  const ModelSizes mine = model_sizes(config);
  return mine.group == right.group && mine.capacity == right.capacity && mine.aux_group == right.aux_group;
}

// What the last checkpoint was written by; "" without one.
std::string saved_config(const Config& config) {
  const auto folder = find_latest(config.log.dir);
  return folder ? Checkpoint(*folder).config() : "";
}

// Nothing where an older version wrote what is no config any more.
std::optional<Config> parsed(const std::string& saved, const Catalogue& catalogue) {
  try {
    return resolve(parse_config(saved, "the config of the checkpoint", {}, {}, catalogue));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool is_of(const Candidate& c, const Config& saved) {
  const ModelSizes s = model_sizes(saved);
  const bool ordered = !saved.schedule.lanes || saved.schedule.order == StepOrder::overlap;
  return c.family == s.family && (c.fuse == Fuse::yes) == s.fuse && c.chunks == s.chunks &&
         c.chunks_backward == s.backward_chunks() && c.lanes.has_value() == saved.schedule.lanes && ordered;
}

// Takes the choice that a checkpoint was written by; false where it does not stand to choose, as in another layout.
bool keep(ChosenSchedule& chosen, const Config& config, const std::string& saved) {
  const std::optional<Config> before = parsed(saved, *config.catalogue);
  if (!before) return false;
  const auto kept = std::ranges::find_if(chosen.choices, [&](const Choice& c) { return is_of(c.candidate, *before); });
  if (kept == chosen.choices.end()) return false;
  chosen.run.config = asking_for(config, kept->candidate);
  chosen.by = ChosenSchedule::By::checkpoint;
  std::rotate(chosen.choices.begin(), kept, kept + 1);
  return true;
}

// Those that were tried stand first from now on.
void take(ChosenSchedule& chosen, const Config& config, const std::vector<Choice>& tried) {
  std::erase_if(chosen.choices, [&](const Choice& c) {
    return std::ranges::find(tried, c.candidate, &Choice::candidate) != tried.end();
  });
  chosen.choices.insert(chosen.choices.begin(), tried.begin(), tried.end());
  chosen.run.config = asking_for(config, tried.front().candidate);
  chosen.by = ChosenSchedule::By::trial;
}

}  // namespace

Planned with_machine_of_first(wire::Group& everyone, const Config& config) {
  const std::string mine = everyone.rank() == 0 ? machine_text(config) : "";
  return {config, machine_of(config, text_of_first(everyone, mine))};
}

ChosenSchedule choose_schedule(const Planned& run, const LoadProfile& load) {
  const Config& config = run.config;
  if (config.schedule.moe) return {run, {}};
  if (num_expert_layers(config) == 0) return {{reference(config), run.machine}, {}};
  const RunShape shape = run_shape({reference(config), run.machine});
  const Among among{.families = config.catalogue->families, .lanes = shape.lanes, .load = load};
  ChosenSchedule chosen;
  for (const Choice& choice : choices(shape.mesh, shape.sizes, run.machine, among))
    if (computes_the_same(asking_for(config, choice.candidate), shape.sizes)) chosen.choices.push_back(choice);
  expects(!chosen.choices.empty(), "auto: a layout that runs at all runs in the first family");
  chosen.run = {asking_for(config, chosen.choices.front().candidate), run.machine};
  return chosen;
}

ChosenSchedule agreed_schedule(const Config& config) {
  if (config.schedule.machine == "default") return choose_schedule(config);
  return choose_schedule(wire::run_ranks(rank_options(config), [&](int rank, wire::World& world) {
    return with_machine_of_first(*wire::everyone(world, rank), config);
  }));
}

ChosenSchedule tried_schedule(const Config& config, const ChosenSchedule& predicted, const TellTrial& tell) {
  if (predicted.choices.size() < 2) return predicted;
  const Machine& machine = predicted.run.machine;
  const Config base = reference(config);
  const RunShape shape = run_shape({base, machine});
  const TrialLayer layer{.mesh = shape.mesh,
                         .sizes = shape.sizes,
                         .machine = machine,
                         .families = config.catalogue->families,
                         .most = static_cast<size_t>(shape.mesh.ranks() > 1 ? config.schedule.trials : 0),
                         .bytes = predict_memory(predicted.run).peak.total(),
                         .fits = [&](const Candidate& c) {
                           return fits_memory({asking_for(config, c), machine});
                         }};
  const std::vector<AgreedSection> shared = what_ranks_share(predicted.run, build_step(run_shape(predicted.run)));
  return wire::run_ranks(rank_options(base), [&](int rank, wire::World& world) {
    const auto everyone = wire::everyone(world, rank);
    agree(*everyone, shared);
    const std::string saved = text_of_first(*everyone, rank == 0 ? saved_config(config) : "");
    ChosenSchedule mine = predicted;
    if (saved.empty() || !keep(mine, config, saved)) {
      const std::vector<Choice> tried = try_out(mine.choices, layer, {rank, &world, dtype_of(config)}, tell);
      if (!tried.empty()) take(mine, config, tried);
    }
    return mine;
  });
}

}  // namespace plait
