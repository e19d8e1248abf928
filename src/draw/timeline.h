// A timeline for eyes: a trace for Perfetto or chrome://tracing, one picture (SVG), or a page to zoom and pan (HTML).
// One row for each rank and lane. Each is self-contained text.
#pragma once
#include "plan/memory.h"
#include "plan/simulate.h"

namespace plait {

// What a step is, for its colour.
enum class StepKind { product, attention, other, update, all_reduce, all_gather, reduce_scatter, all_to_all };
inline constexpr int kStepKinds = 8;
std::string_view name(StepKind kind);
std::string_view colour(StepKind kind);

struct StepNote {
  StepKind kind = StepKind::other;
  std::string name;                // of its first result, "l1.rows"
  std::string title;               // "einsum", "exchange+gather"
  std::string part;                // where it stands: "l1", "l1 backward", "update"
  std::vector<std::string> lines;  // types, flops and bytes
  std::vector<int> needs;          // the steps that make its inputs
};

struct Drawing {
  std::string title;  // "configs/tiny.toml, predicted on a laptop"
  Timeline timeline;
  std::vector<StepNote> notes;     // by step
  std::vector<std::string> lanes;  // names, by lane
  // By place in the issue order, of the first rank: drawn above the lanes of the page. Empty: not drawn.
  std::vector<MemoryUse> memory = {};
};

std::vector<StepNote> step_notes(const Schedule& schedule, const Types& types, const std::vector<StepCost>& costs);
std::vector<std::string> lane_names(const Machine& machine);

// Of a list over time; `machine` has its levels and says what each step should take.
Drawing drawing(const Schedule& schedule, const Machine& machine, std::string title, Timeline timeline);

// The JSON of chrome://tracing: microseconds, pid = rank, tid = lane; a message says how long it waited for its group.
std::string chrome_trace(const Drawing& drawing);

// Boxes narrower than a pixel are drawn together as one.
std::string timeline_svg(const Drawing& drawing);
std::string timeline_html(const Drawing& drawing);

}  // namespace plait
