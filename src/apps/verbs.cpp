// The table of verbs, and the one place where an error turns into a line and an exit code.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "apps/apps.h"
#include "apps/version.h"
#include "base/errors.h"
#include "base/stop.h"
#include "base/text.h"
#include "launch/launch.h"
#include "wire/rank_body.h"

namespace plait {
namespace {

constexpr Verb kVerbs[] = {
    {"train", "train a model; one line a step, resumes by itself", train_app},
    {"generate", "go on from a prompt with a trained model", generate_app},
    {"show", "the training step of a config as a typed schedule", show_app},
    {"schedule", "checks, differentiates, prices, draws and runs a schedule from a file", schedule_app},
    {"verify", "this layout against one rank in float64", verify_app},
    {"bench", "ratios against limits and alternatives: bench step", bench_app},
    {"config", "list every key of a config file, or show what a file comes to", config_app},
    {"doctor", "what this machine has, and what makes it slow", doctor_app},
};

std::string help() {
  std::string text = "plait VERB ...: train Mixture-of-Experts models on many ranks\n\n";
  for (const Verb& verb : verbs()) text += fmt::format("  {:<12}{}\n", verb.name, verb.summary);
  return text + "\n`plait VERB --help` says more of one; `plait --version` what this program is made of.\n";
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    if (verb.name == name) return verb;
    names.emplace_back(verb.name);
  }
  const std::string near = nearest(name, names);
  if (near.empty()) input_error("unknown verb {}; there are {}", name, join(names, ", "));
  input_error("unknown verb {}; did you mean {}?", name, near);
}

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

int run_verb(Arguments arguments) {
  try {
    if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
      fmt::print("{}", help());
      return arguments.empty() ? 2 : 0;
    }
    if (arguments[0] == "--version") {
      fmt::print("{}", version_text());
      return 0;
    }
    return find_verb(arguments[0]).run(arguments.subspan(1));
  } catch (const InputError& error) {
    // All ranks of a launcher read the same line: one of them says what is wrong with it, and the launcher ends the
    // rest.
    if (!this_launch().first()) std::this_thread::sleep_for(std::chrono::seconds(3));
    fmt::print(stderr, "plait: {}\n", error.what());
    return 2;
  } catch (const stop::Stopped& stopped) {
    fmt::print(stderr, "plait: {}\n", stopped.what());
    return stop::code_of(stopped.signal);
  } catch (const wire::RankFailure& error) {
    fmt::print(stderr, "plait: {}\n{}", error.what(), error.report);
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "plait: {}\n", error.what());
    return 1;
  }
}

}  // namespace plait
