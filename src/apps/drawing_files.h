// The files that a verb draws a timeline into.
#pragma once
#include <string>

#include "apps/command_line.h"
#include "draw/timeline.h"

namespace plait {

struct DrawingFiles {
  std::string svg, html, trace;  // empty: not drawn
  bool any() const { return !svg.empty() || !html.empty() || !trace.empty(); }
};

// One file for all ranks: of several processes that a launcher started the first one writes it.
void write_of_first(const std::string& path, std::string_view text);

void add_options(CommandLine& line, DrawingFiles& files);  // --svg, --html, --trace

// Several stand in one picture, one under the other; a trace holds the first.
void save(const DrawingFiles& files, std::span<const Drawing> drawings);

// What a list should take on a machine: of few ranks all are drawn, of more one stands for all.
Drawing predicted_drawing(const Schedule& schedule, const Machine& machine, std::string title,
                          const Timeline& one_rank);

}  // namespace plait
