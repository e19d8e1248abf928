#include "bench/grid_peer.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/errors.h"
#include "base/json.h"
#include "base/statistics.h"

namespace plait {
namespace {

constexpr double kRoundMs = 60;
constexpr int64_t kMostSteps = 5, kFirstSteps = 2;
constexpr std::chrono::milliseconds kNap{25};

std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words;
  for (size_t at = 0; at < command.size();) {
    const size_t end = std::min(command.find(' ', at), command.size());
    if (end > at) words.push_back(command.substr(at, end - at));
    at = end + 1;
  }
  if (words.empty()) input_error("--peer \"{}\": expected a program and its arguments", command);
  return words;
}

}  // namespace

GridPeer::GridPeer(const std::string& command, std::string name)
    : name_(std::move(name)), process_(words_of(command)) {}

void GridPeer::begin(const Config& c) {
  JsonLine line;
  line.add("tokens_per_rank", micro_tokens(c)).add("hidden", c.model.hidden_size);
  line.add("ffn", c.moe.moe_intermediate_size).add("experts", c.moe.num_experts).add("topk", c.moe.num_experts_per_tok);
  line.add("ep", c.mesh.ep).add("tp", c.mesh.tp).add("esp", c.mesh.esp);
  line.add("capacity_factor", c.moe.capacity.value_or(0))
      .add("act", std::string(word(c.model.hidden_act)))
      .add("glu", c.model.glu);
  layer_ = line.str();
  layer_.pop_back();
  skip_.clear();
  rounds_ms_.clear();
}

void GridPeer::ask() {
  const bool first = rounds_ms_.empty();
  const int64_t steps =
      first ? kFirstSteps : std::clamp<int64_t>(std::llround(kRoundMs / rounds_ms_.front()), 1, kMostSteps);
  if (skip_.empty()) process_.send(fmt::format("{}, \"steps\": {}, \"warmup\": {}}}", layer_, steps, first ? 2 : 1));
}

void GridPeer::take() {
  if (!skip_.empty()) return;
  const JsonObject answer = JsonObject::parse(process_.answer(), name_ + "'s answer");
  if (answer.has("error")) input_error("{} refuses {}}}: {}", name_, layer_, answer.text("error"));
  if (answer.has("skip"))
    skip_ = answer.text("skip");
  else
    rounds_ms_.push_back(quartiles(answer.numbers("ms")).median);
}

GridRow GridPeer::row() const {
  GridRow row{.variant = name_, .schedule = std::string(kPeer), .note = skip_};
  if (rounds_ms_.empty()) return row;
  const Quartiles times = quartiles(rounds_ms_);
  row.ms = times.median;
  row.low = times.low;
  row.high = times.high;
  return row;
}

void sleep_until(wire::Group& everyone, const std::function<bool()>& done) {
  const at::Tensor over = at::zeros({1}, at::kLong);
  for (;;) {
    if (everyone.rank() == 0 && done()) over.fill_(1);
    everyone.broadcast(over, 0);
    if (over.item<int64_t>() != 0) return;
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace plait
