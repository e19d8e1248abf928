// `plait bench collectives`: measures this machine for a plan: messages between ranks, products, memory. Writes it as
// a machine file, which `schedule.machine` names.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/machine.h"
#include "bench/numbers.h"
#include "draw/fit_svg.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "machine/machine_file.h"
#include "schedule/lanes.h"
#include "wire/ranks.h"

namespace plait {
namespace {

constexpr Collective kKinds[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                 Collective::all_to_all};
constexpr const char* kName = "bench collectives";
constexpr double kTotal = 60;  // s: of all messages, if most are short enough

struct Request {
  int64_t ranks = 0, node = 0, threads = 0;
  std::string out, svg, numbers, name, least = "256", most = "4MiB";
  double seconds = kTotal;
  bool unnamed = false;
};

// One line that changes on a terminal, one line for each tenth elsewhere.
class Progress {
 public:
  void tell(const std::string& what, int done, int all) {
    const std::string left = done == 0 ? "" : human_seconds(seconds() / done * (all - done)) + " left";
    if (terminal_ || 10 * done / all > tenth_)
      fmt::print(stderr, "{}{:3}% {:<56} {:>16}{}", terminal_ ? "\r" : "", 100 * done / all, what, left,
                 terminal_ ? "" : "\n");
    tenth_ = 10 * done / all;
  }

  void end() const { fmt::print(stderr, "{}measured in {}\n", terminal_ ? "\n" : "", human_seconds(seconds())); }

 private:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int tenth_ = -1;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
};

MachineRequest machine_request(const Request& request) {
  MachineRequest r{.messages = {.per_node = static_cast<int>(request.node),
                                .least = *parse_bytes(request.least),
                                .most = *parse_bytes(request.most)}};
  const int parts = num_parts(static_cast<int>(request.ranks), r.messages);
  r.messages.repeats.seconds = request.seconds / (num_sizes(r.messages) * parts);
  r.compute.repeats.seconds = request.seconds / 300;
  return r;
}

std::string per_second(double bytes) { return human_bytes(bytes) + "/s"; }

std::string messages_text(const Measured& measured, const Machine& machine) {
  Table table({"group", "crosses", "collective", "alpha", "1/beta", "r2", "worst", "largest", "takes"});
  for (const MeasuredGroup& group : measured.groups)
    for (Collective kind : kKinds) {
      const auto& samples = group.samples[static_cast<size_t>(kind)];
      const MessageFit fit = fit_messages(samples);
      table.row({text(group.digits), machine.levels[static_cast<size_t>(level_of(measured, group.digits))].name,
                 std::string(name(kind)), human_seconds(fit.cost.alpha),
                 fit.cost.beta > 0 ? per_second(1 / fit.cost.beta) : "-", fmt::format("{:.3f}", fit.cost.r2),
                 percent(fit.worst, 0), human_bytes(samples.back().bytes), human_seconds(samples.back().seconds)});
    }
  return table.str() +
         "a message of which a rank sends b bytes takes alpha + beta b while all groups of its shape send; worst: the\n"
         "largest error of that line; \"2 every 4\": two ranks four apart\n\n";
}

std::string pairs_text(const Measured& measured) {
  if (measured.pairs.empty()) return "";
  Table table({"all_to_all between nodes", "beside, within", "group", "together / one after the other"});
  for (const PairCost& p : measured.pairs)
    table.row({text(p.first), std::string(name(p.second_kind)), text(p.second), percent(p.share, 0)});
  return table.str() + "\n";
}

std::string size_of(const ProductPoint& p) { return fmt::format("{} x {} x {}", p.rows, p.columns, p.inner); }
std::string rate_of(const ProductPoint& p) { return fmt::format("{:.1f}", p.flops / 1e9); }

// What messages cost more among the steps of a list.
std::string overheads_text(const Machine& machine) {
  std::string text;
  for (const Level& level : machine.levels)
    text += fmt::format(
        "ranks go on {} after a message of a {} among the steps of a list, {} later where it is on a lane\n",
        human_seconds(level.meet), level.name, human_seconds(level.hand_over));
  return text + fmt::format("on a lane it takes {:.2f} s longer for each second that its rank computes meanwhile\n\n",
                            machine.crowding);
}

// Points come in pairs: rows times a matrix, and the matrix's gradient.
std::string compute_text(const Measured& measured) {
  Table table({"rows x columns x inner", "GF/s of a rank", "gradient of the matrix", "GF/s"});
  for (size_t i = 0; i + 1 < measured.products.size(); i += 2) {
    const ProductPoint &p = measured.products[i], &gradient = measured.products[i + 1];
    table.row({size_of(p), rate_of(p), size_of(gradient), rate_of(gradient)});
  }
  return fmt::format("{}while all ranks compute: {} of memory a rank; {} from one op to the next\n\n", table.str(),
                     per_second(measured.memory_bytes), human_seconds(measured.start));
}

std::string copies_text(const std::vector<CopyTurn>& copies) {
  if (copies.empty()) return "";
  Table table({"two ranks of a node", "bytes a rank writes", "wire", "memcpy", "wire / memcpy"});
  for (const CopyTurn& c : copies) {
    const auto bytes = static_cast<double>(c.bytes);
    table.row({std::string(name(c.kind)), human_bytes(bytes), per_second(bytes / c.seconds),
               per_second(bytes / c.copy_seconds), percent(c.share(), 0)});
  }
  return table.str() + "memcpy: as many bytes, on both ranks at the same time\n";
}

std::string report(const MachineBench& bench, const Machine& machine) {
  return machine.note + "\n\n" + messages_text(bench.measured, machine) + pairs_text(bench.measured) +
         compute_text(bench.measured) + overheads_text(bench.machine) + copies_text(bench.copies);
}

void check_request(Request& r) {
  const Launch launch = this_launch();
  if (r.ranks == 0) r.ranks = launch.launched() ? launch.ranks : 2;
  if (r.ranks < 2) input_error("one rank started: messages need 2 at least (mpirun -n 2)");
  if (r.node == 0) r.node = launch.ranks_per_node > 0 ? launch.ranks_per_node : r.ranks;
  if (r.ranks % r.node != 0) input_error("--node {}: expected a divisor of the {} ranks", r.node, r.ranks);
  const int64_t cores = launch.launched() ? launch.cores : launch::usable_cores();
  if (r.threads == 0) r.threads = std::max<int64_t>(1, cores / (launch.launched() ? r.node : r.ranks));
  for (const auto& [flag, size] : {std::pair("--least", r.least), std::pair("--most", r.most)})
    if (!parse_bytes(size)) input_error("{} {}: expected a size such as 4MiB", flag, size);
  if (*parse_bytes(r.most) < *parse_bytes(r.least)) input_error("--most {}: less than --least {}", r.most, r.least);
}

NumbersPlace place_of(const Request& r) {
  return {r.numbers, r.name.empty() ? kName : fmt::format("{} {}", kName, r.name),
          r.unnamed ? Unnamed::accepted : Unnamed::refused};
}

std::string note_of(const Request& r) {
  return fmt::format("plait bench collectives: {} ranks with {} thread{} each, nodes of {}", r.ranks, r.threads,
                     r.threads == 1 ? "" : "s", r.node);
}

// A file that is opened before anything is measured, so that a wrong path costs no time.
using File = std::unique_ptr<DurableFile>;

File open(const std::string& path) {
  return path.empty() || !this_launch().first() ? nullptr : std::make_unique<DurableFile>(path);
}

void save(const File& file, const std::string& text) {
  if (!file) return;
  file->write(text);
  file->commit();
}

// At rank 0; elsewhere what it measured itself.
MachineBench measured(const Request& request) {
  const bool lanes = request.node < request.ranks;  // as in a run whose messages have lanes
  const launch::RankOptions ranks{.ranks = static_cast<int>(request.ranks),
                                  .threads = static_cast<int>(request.threads),
                                  .lanes = lanes ? kNumLanes - 1 : 0,
                                  .node = lanes ? static_cast<int>(request.node) : 0};
  return wire::run_ranks(ranks, [&](int rank, wire::World& world) {
    Progress progress;
    MachineRequest wanted = machine_request(request);
    wanted.progress = [&](const std::string& what, int done, int all) { progress.tell(what, done, all); };
    MachineBench found = bench_machine(rank, world, std::move(wanted));
    if (rank == 0) progress.end();
    return found;
  });
}

}  // namespace

int bench_collectives(Arguments arguments) {
  Request request;
  CommandLine line(kName, "Measures messages between ranks, products and memory: a machine file for plans");
  line.option("--ranks", request.ranks, "how many; by default what the launcher started, or 2",
              Integers{.least = 2, .most = kRankCount.most})
      .option("--node", request.node, "ranks of a node; by default as the launcher tells, or all", kRankCount)
      .option("--threads", request.threads, "of a rank; by default the cores are shared out", kRankCount)
      .option("--out", request.out, "the machine file to write, such as machine.toml")
      .option("--svg", request.svg, "a picture of what messages took, and of the lines through it")
      .option("--numbers", request.numbers, "a document whose section `bench collectives NAME` is to hold the figures")
      .flag("--unnamed", request.unnamed, "with --numbers: also of sources that no commit names")
      .option("--name", request.name, "of the machine; by default its processor")
      .option("--least", request.least, "the smallest message: of the larger side of a rank")
      .option("--most", request.most, "the largest message; where messages are slow it stays smaller")
      .option("--seconds", request.seconds, "about how long to measure messages",
              Reals{.at_least = Reals::Least::refused});
  if (!line.parse(arguments)) return 0;
  check_request(request);
  const NumbersPlace place = place_of(request);
  if (!place.path.empty()) expect_place(place);
  const File out = open(request.out), svg = open(request.svg);
  const MachineBench bench = measured(request);
  if (!this_launch().first()) return 0;
  Machine machine = bench.machine;
  machine.name = request.name.empty() ? processor() : request.name;
  machine.note = note_of(request);
  const std::string text = report(bench, machine);
  fmt::print("{}", text);
  save(out, to_toml(machine));
  save(svg, draw_fits(bench.measured, machine.name));
  if (!place.path.empty()) write_numbers(place, {.command = command_of(kName, arguments), .text = fenced(text)});
  return 0;
}

}  // namespace plait
