// The verbs of the command line. A verb is one file VERB_app.cpp with one function: it reads what follows the verb
// through a CommandLine, works, prints, and returns the exit code. What it cannot do it throws; run_verb says that
// once.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace plait {

using Arguments = std::span<const std::string>;  // what follows the verb

int bench_app(Arguments arguments);
int config_app(Arguments arguments);
int doctor_app(Arguments arguments);
int generate_app(Arguments arguments);
int schedule_app(Arguments arguments);
int show_app(Arguments arguments);
int train_app(Arguments arguments);
int verify_app(Arguments arguments);

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line of the help
  int (*run)(Arguments arguments);
};

// In the order of the help. A new verb is a declaration above and a line in verbs.cpp.
std::span<const Verb> verbs();

// Finds the verb in arguments[0] and runs it. An InputError becomes one line on stderr and exit code 2, any other
// exception one line and exit code 1.
int run_verb(Arguments arguments);

}  // namespace plait
