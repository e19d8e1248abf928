#include "apps/drawing_files.h"

#include "base/files.h"
#include "launch/launch.h"

namespace plait {
namespace {

constexpr int kMostRanks = 4;

}  // namespace

void write_of_first(const std::string& path, std::string_view text) {
  if (this_launch().first()) write_text(path, text);
}

void add_options(CommandLine& line, DrawingFiles& files) {
  line.option("--svg", files.svg, "a picture of the step")
      .option("--html", files.html, "the same as a page to zoom into")
      .option("--trace", files.trace, "the same for Perfetto or chrome://tracing");
}

void save(const DrawingFiles& files, std::span<const Drawing> drawings) {
  if (!files.svg.empty()) write_of_first(files.svg, timeline_svg(drawings));
  if (!files.html.empty()) write_of_first(files.html, timeline_html(drawings));
  if (!files.trace.empty()) write_of_first(files.trace, chrome_trace(drawings.front()));
}

Drawing predicted_drawing(const Schedule& schedule, const Machine& machine, std::string title,
                          const Timeline& one_rank) {
  const int ranks = schedule.mesh.ranks() <= kMostRanks ? schedule.mesh.ranks() : 1;
  Timeline all{.makespan = one_rank.makespan};
  for (TimeSpan span : one_rank.spans)
    for (int rank = 0; rank < ranks; ++rank) {
      span.rank = rank;
      all.spans.push_back(span);
    }
  return drawing(schedule, machine, std::move(title), std::move(all));
}

}  // namespace plait
