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

void add_options(CommandLine& line, DrawingFiles& files);  // --svg, --html, --trace
void save(const DrawingFiles& files, const Drawing& drawing);

}  // namespace plait
