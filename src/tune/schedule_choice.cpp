#include "tune/schedule_choice.h"

#include <mutex>

#include "base/errors.h"
#include "base/launch.h"
#include "checkpoint/checkpoint.h"
#include "machine/machine_of.h"
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
  c.schedule.moe = "sharded";
  c.schedule.fuse = "auto";
  c.schedule.chunks = c.schedule.chunks_backward = 1;
  return c;
}

Config asking_for(const Config& config, const Candidate& candidate) {
  Config c = reference(config);
  const int64_t group = gate_group(c);
  c.schedule.moe = name(candidate.family);
  const bool could =
      candidate.family != Family::ted && candidate.family != Family::dtd && candidate.family != Family::parm;
  if (could) c.schedule.fuse = candidate.fuse == Fuse::yes ? "yes" : "no";
  c.schedule.chunks = candidate.chunks;
  c.schedule.chunks_backward = candidate.chunks_backward;
  c.schedule.lanes = candidate.lanes > 0;
  if (c.schedule.lanes) c.schedule.order = "overlap";
  if ((c.moe.capacity || gate_of(c).route->chooser == Chooser::group) && gate_group(c) != group) c.moe.group = group;
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
std::optional<Config> parsed(const std::string& saved) {
  try {
    return resolve(parse_config(saved, "the config of the checkpoint"));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

bool is_of(const Candidate& c, const Config& saved) {
  const ModelSizes s = model_sizes(saved);
  const bool ordered = !saved.schedule.lanes || saved.schedule.order == "overlap";
  return c.family == s.family && (c.fuse == Fuse::yes) == s.fuse && c.chunks == s.chunks &&
         c.chunks_backward == s.backward_chunks() && (c.lanes > 0) == saved.schedule.lanes && ordered;
}

// Takes the choice that a checkpoint was written by; false where it does not stand to choose, as in another layout.
bool keep(ChosenSchedule& chosen, const Config& config, const std::string& saved) {
  const std::optional<Config> before = parsed(saved);
  if (!before) return false;
  const auto kept = std::ranges::find_if(chosen.choices, [&](const Choice& c) { return is_of(c.candidate, *before); });
  if (kept == chosen.choices.end()) return false;
  chosen.config = asking_for(config, kept->candidate);
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
  chosen.config = asking_for(config, tried.front().candidate);
  chosen.by = ChosenSchedule::By::trial;
}

}  // namespace

Config with_machine_of_first(wire::Group& everyone, Config config) {
  const std::string mine = everyone.rank() == 0 ? machine_text(config) : "";
  config.schedule.machine_text = text_of_first(everyone, mine);
  return config;
}

ChosenSchedule choose_schedule(const Config& config, const LoadProfile& load) {
  if (config.schedule.moe != "auto") return {config, {}};
  if (num_expert_layers(config) == 0) return {reference(config), {}};
  const Config base = reference(config);
  const RunShape shape = run_shape(base);
  ChosenSchedule chosen;
  for (const Choice& choice : choices(shape.mesh, shape.sizes, machine_of(config), shape.ranks_per_node, load))
    if (computes_the_same(asking_for(config, choice.candidate), shape.sizes)) chosen.choices.push_back(choice);
  expects(!chosen.choices.empty(), "auto: a layout that runs at all runs \"sharded\"");
  chosen.config = asking_for(config, chosen.choices.front().candidate);
  return chosen;
}

ChosenSchedule agreed_schedule(const Config& config) {
  if (config.schedule.machine == "default") return choose_schedule(config);
  Config shared = config, layout = reference(config);
  if (!launched()) {  // one process reads one file
    shared.schedule.machine_text = machine_text(config);
    return choose_schedule(shared);
  }
  layout.schedule.order = "written";  // that asks for no machine
  std::mutex mutex;
  wire::run_ranks(local_options(layout), [&](int rank, wire::World& world) {
    Config mine = with_machine_of_first(*wire::everyone(world, rank), config);
    const std::lock_guard lock(mutex);
    shared = std::move(mine);
  });
  return choose_schedule(shared);
}

ChosenSchedule tried_schedule(const Config& config, const ChosenSchedule& predicted, const TellTrial& tell) {
  if (predicted.choices.size() < 2) return predicted;
  Config asked = config;
  asked.schedule.machine_text = predicted.config.schedule.machine_text;
  const Config base = reference(asked);
  const RunShape shape = run_shape(base);
  const Machine machine = machine_of(base);
  const TrialLayer layer{.mesh = shape.mesh,
                         .sizes = shape.sizes,
                         .machine = machine,
                         .most = static_cast<size_t>(shape.mesh.ranks() > 1 ? config.schedule.trials : 0),
                         .bytes = predict_memory(predicted.config).peak.total(),
                         .fits = [&](const Candidate& c) { return fits_memory(asking_for(asked, c)); }};
  const std::vector<AgreedSection> shared = what_ranks_share(predicted.config, build_step(run_shape(predicted.config)));
  ChosenSchedule chosen;
  std::mutex mutex;
  wire::run_ranks(local_options(base), [&](int rank, wire::World& world) {
    const auto everyone = wire::everyone(world, rank);
    agree(*everyone, shared);
    const std::string saved = text_of_first(*everyone, rank == 0 ? saved_config(config) : "");
    ChosenSchedule mine = predicted;
    if (saved.empty() || !keep(mine, asked, saved)) {
      const std::vector<Choice> tried = try_out(mine.choices, layer, {rank, &world, dtype_of(config)}, tell);
      if (!tried.empty()) take(mine, asked, tried);
    }
    const std::lock_guard lock(mutex);
    chosen = std::move(mine);
  });
  return chosen;
}

}  // namespace plait
