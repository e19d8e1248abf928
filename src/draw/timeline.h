// A timeline for eyes: a trace for Perfetto or chrome://tracing, one picture (SVG), or a page to zoom and pan (HTML).
// One row for each rank and lane. Each is self-contained text.
#pragma once
#include <optional>
#include <span>

#include "plan/critical_path.h"
#include "plan/memory.h"
#include "plan/simulate.h"

namespace plait {

// What a step is, for its colour.
enum class StepKind { product, attention, other, update, all_reduce, all_gather, reduce_scatter, all_to_all };
inline constexpr int kStepKinds = 8;
std::string_view name(StepKind kind);
std::string_view colour(StepKind kind);
std::string_view colour(MemoryClass what);  // none that a kind of step has too

struct StepNote {
  StepKind kind = StepKind::other;
  std::string name;                // of its first result, "l1.rows"
  std::string title;               // "einsum", "exchange+gather"
  std::string part;                // where it stands: "l1", "l1 backward", "l1 again", "gradients", "update"
  std::string alike;               // the same for steps that do the same work; empty for those that only rename
  std::vector<std::string> lines;  // types, flops and bytes
  std::vector<int> needs;          // the steps that make its inputs
};

struct Drawing {
  std::string title;  // "configs/tiny.toml, predicted on a laptop"
  Timeline timeline;
  std::vector<StepNote> notes;     // by step
  std::vector<std::string> lanes;  // names, by lane
  std::optional<Repeat> repeat = {};
  std::vector<CriticalStep> path = {};  // underlined
  // By place in the issue order, of the first rank: drawn above the lanes of the page. Empty: not drawn.
  std::vector<MemoryUse> memory = {};
};

std::vector<StepNote> step_notes(const Schedule& schedule, const Types& types, const std::vector<StepCost>& costs);
std::vector<std::string> lane_names();  // by Lane

// Of a list over time; `machine` says what each step should take.
Drawing drawing(const Schedule& schedule, const Machine& machine, std::string title, Timeline timeline);

// The JSON of chrome://tracing: microseconds, pid = rank, tid = lane; a message says how long it waited for its group.
std::string chrome_trace(const Drawing& drawing);

// Boxes narrower than a pixel are drawn together as one. Of equal layers that follow one another one is drawn (see
// draw/folds.h); a page can open them. Several drawings stand one under the other on one axis, with all their layers.
std::string timeline_svg(std::span<const Drawing> drawings);
std::string timeline_html(std::span<const Drawing> drawings);
inline std::string timeline_svg(const Drawing& drawing) { return timeline_svg(std::span(&drawing, 1)); }
inline std::string timeline_html(const Drawing& drawing) { return timeline_html(std::span(&drawing, 1)); }

}  // namespace plait
