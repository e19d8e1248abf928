// `plait bench grid`: a grid of MoE layers in every family, in turns, into a file that an interrupted run goes on with;
// and what the file says about them.
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "apps/benches.h"
#include "apps/command_line.h"
#include "base/errors.h"
#include "base/files.h"
#include "base/random.h"
#include "base/units.h"
#include "bench/grid_peer.h"
#include "bench/grid_report.h"
#include "bench/grid_runner.h"
#include "bench/numbers.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "machine/machine_file.h"
#include "run/profile.h"
#include "wire/ranks.h"

namespace plait {
namespace {

constexpr const char* kName = "bench grid";

struct Request {
  Launch launch = this_launch();
  int64_t ranks = launch.launched() ? launch.ranks : 4, node = launch.ranks_per_node;
  int64_t threads = 0, rounds = 5, trials = GridSetting{}.trials;
  std::string file = "runs/grid.jsonl", links = "local", only, machine, html, report, numbers;
  std::string peer, peer_name = "deepspeed";
  std::vector<std::string> overrides;
  bool quick = false, unnamed = false;
};

std::vector<GridLayer> layers_of(const Request& request) {
  const int ranks = static_cast<int>(request.ranks);
  std::vector<GridLayer> all = grid_layers(ranks, request.quick ? GridSize::quick : GridSize::full);
  const bool any = !all.empty();
  std::erase_if(all, [&](const GridLayer& layer) { return !layer.id.starts_with(request.only); });
  if (!any) input_error("--ranks {}: a grid needs 2 ranks at least, and an even number", ranks);
  if (all.empty())
    input_error("--only {}: no layer of {} ranks has a name that begins so; \"t2e2-07\" is the seventh of tp 2, esp 2",
                request.only, ranks);
  return all;
}

GridSetting setting_of(const Request& request) {
  const int64_t cores = request.launch.launched() ? request.launch.cores : launch::usable_cores();
  GridSetting setting{.threads = request.threads > 0 ? request.threads : std::max<int64_t>(1, cores / request.ranks),
                      .rounds = request.rounds,
                      .trials = request.trials,
                      .overrides = request.overrides,
                      .launch = request.launch};
  if (request.node > 0) setting.lanes = NodeLanes{static_cast<int>(request.node)};
  if (!request.machine.empty()) setting.machine = read_machine(request.machine);
  if (setting.machine && setting.machine->ranks > 0 && setting.machine->ranks != request.ranks)
    input_error(
        "--machine {}: measured with {} ranks, but the grid has {}: plait bench collectives --ranks {} makes one",
        request.machine, setting.machine->ranks, request.ranks, request.ranks);
  return setting;
}

std::string fingerprint(std::string_view text) { return fmt::format("{:08x}", hash_name(text) >> 32); }

// All that a file must have in common with a run that goes on with it. A part of the grid goes on with any other part.
GridHeader header_of(const Request& request, const GridSetting& setting) {
  std::string grid;
  for (const GridLayer& layer : grid_layers(static_cast<int>(request.ranks), GridSize::full)) {
    grid += layer.id + layer.title();
    for (const LayerVariant& variant : family_variants(layer)) grid += variant.name;
  }
  for (const std::string& key : request.overrides) grid += key;
  grid += fmt::format("{} trials", request.trials);
  return {.links = request.links,
          .ranks = static_cast<int>(request.ranks),
          .lanes = setting.lanes,
          .threads = setting.threads,
          .rounds = setting.rounds,
          .grid = fingerprint(grid),
          .machine = request.machine.empty() ? "" : fingerprint(read_text(request.machine)),
          .peer = request.peer};
}

GridTable table_of(const std::string& path, const GridHeader& header) {
  if (!std::filesystem::exists(path)) return {header, {}};
  GridTable table = parse_grid(read_text(path), path);
  expect_same_grid(table.header, header, path);
  return table;
}

std::string in_ms(double value) { return fmt::format("{:.1f}", value); }

void tell(const GridResult& result, const std::string& place, double seconds_left) {
  std::string line = fmt::format("[{}] {} ms:", place, result.layer.id);
  for (const GridRow& row : result.rows)
    if (row.ran()) line += fmt::format(" {} {},", row.variant, in_ms(row.ms));
  fmt::print(stderr, "{} {} left\n", line, human_seconds(seconds_left));
}

// One rank's way through the layers. Rank 0 has the file.
class GridWalk {
 public:
  GridWalk(const Request& request, const GridSetting& setting, RankContext context)
      : request_(request), setting_(setting), context_(context), world_(wire::everyone(*context.world, context.rank)) {}

  void run() {
    const std::vector<GridLayer> layers = layers_of(request_);
    if (context_.rank == 0) open();
    const std::vector<int64_t> todo = agreed(layers);
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < todo.size(); ++i) {
      GridResult result = measured(layers[static_cast<size_t>(todo[i])]);
      if (context_.rank > 0) continue;
      const double each = ms(Clock::now() - start) / 1e3 / static_cast<double>(i + 1);
      tell(result, fmt::format("{}/{}", layers.size() - todo.size() + i + 1, layers.size()),
           each * static_cast<double>(todo.size() - i - 1));
      table_.results.push_back(std::move(result));
      write_text(request_.file, grid_lines(table_));
    }
  }

 private:
  GridResult measured(const GridLayer& layer) {
    if (request_.peer.empty()) return bench_grid_layer(layer, setting_, context_);
    if (peer_) peer_->begin(grid_config(layer, setting_, usual_variant()));
    GridResult result = bench_grid_layer(layer, setting_, context_, [this](wire::Group& world) {
      if (peer_) peer_->ask();
      sleep_until(world, [this] { return peer_->answered(); });
      if (peer_) peer_->take();
    });
    if (peer_) result.rows.push_back(peer_->row());
    return result;
  }

  void open() {
    table_ = table_of(request_.file, header_of(request_, setting_));
    if (const auto folder = std::filesystem::path(request_.file).parent_path(); !folder.empty())
      std::filesystem::create_directories(folder);
    if (!request_.peer.empty()) peer_.emplace(request_.peer, request_.peer_name);
  }

  // The layers that are not in the file, the same on all ranks.
  std::vector<int64_t> agreed(const std::vector<GridLayer>& layers) const {
    std::vector<int64_t> todo(layers.size(), 1);
    if (context_.rank == 0)
      for (size_t i = 0; i < layers.size(); ++i) todo[i] = table_.has(layers[i].id) ? 0 : 1;
    world_->broadcast(at::from_blob(todo.data(), {static_cast<int64_t>(todo.size())}, at::kLong), 0);
    std::vector<int64_t> places;
    for (size_t i = 0; i < todo.size(); ++i)
      if (todo[i] != 0) places.push_back(static_cast<int64_t>(i));
    return places;
  }

  const Request& request_;
  const GridSetting& setting_;
  RankContext context_;
  std::shared_ptr<wire::Group> world_;
  GridTable table_;               // rank 0
  std::optional<GridPeer> peer_;  // rank 0
};

NumbersPlace place_of(const Request& request, const std::string& links) {
  return {request.numbers, fmt::format("{} {}", kName, links), request.unnamed ? Unnamed::accepted : Unnamed::refused};
}

// What a file says, on the terminal, as a page and in a document.
void tell_report(const Request& request, const std::string& file, const std::string& command) {
  const GridTable table = parse_grid(read_text(file), file);
  const GridReport report = grid_report(table);
  const std::string text = grid_text(report);
  fmt::print("{}", text);
  if (!request.html.empty()) write_text(request.html, grid_html(report, table));
  if (!request.numbers.empty())
    write_numbers(place_of(request, table.header.links), {.command = command, .text = fenced(text)});
}

}  // namespace

int bench_grid(Arguments arguments) {
  Request request;
  CommandLine line(kName, "A grid of MoE layers in every family, in turns; an interrupted run goes on");
  line.option("--file,--csv", request.file, "the file that grows by whole layers, a JSON object a line")
      .option("--links", request.links, "what the links between nodes are, a word for the file")
      .option("--ranks", request.ranks, "ranks; by default those of the launcher", kRankCount)
      .option("--node", request.node, "ranks of a node, for lanes of messages; by default the launcher's; 0: none",
              kFromZero)
      .option("--threads", request.threads, "of a rank; 0: cores / ranks", kFromZero)
      .option("--rounds", request.rounds, "of all ways of a layer, in turns; the median counts")
      .option("--trials", request.trials, "schedules that auto runs before it takes one; 0: it takes what is predicted",
              kFromZero)
      .option("--only", request.only, "only layers whose name begins so: t2e4-07, t2e4, t2")
      .option("--machine", request.machine, "a machine file (plait bench collectives): predicts every way")
      .option("--peer", request.peer, "a program, with its arguments, that takes turns (bench/peers/README.md)")
      .option("--peer-name", request.peer_name, "of the other program, in the file")
      .option("--html", request.html, "a page of what the file says")
      .option("--report", request.report, "measures nothing: only what this file says")
      .option("--numbers", request.numbers, "a document whose section `bench grid LINKS` is to hold the figures")
      .flag("--unnamed", request.unnamed, "with --numbers: also of sources that no commit names")
      .flag("--quick", request.quick, "two layers of each pair (tp, esp) instead of twelve")
      .rest("KEY=VALUE", request.overrides, "section.key=value, for every layer");
  if (!line.parse(arguments)) return 0;
  const std::string command = command_of(kName, arguments);
  if (!request.report.empty()) {
    if (request.launch.first()) tell_report(request, request.report, command);
    return 0;
  }
  layers_of(request);
  if (!request.numbers.empty()) expect_place(place_of(request, request.links));
  const GridSetting setting = setting_of(request);
  const launch::RankOptions options{.ranks = static_cast<int>(request.ranks),
                                    .threads = static_cast<int>(setting.threads),
                                    .lanes = setting.lanes ? kNumLanes - 1 : 0,
                                    .node = setting.lanes ? setting.lanes->ranks_per_node : 0};
  wire::run_ranks(options, [&](int rank, wire::World& world) { GridWalk(request, setting, {rank, &world}).run(); });
  if (request.launch.first()) tell_report(request, request.file, command);
  return 0;
}

}  // namespace plait
