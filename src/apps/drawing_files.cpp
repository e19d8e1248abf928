#include "apps/drawing_files.h"

#include "base/files.h"

namespace plait {
namespace {

void save(const std::string& path, const std::string& text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

void add_options(CommandLine& line, DrawingFiles& files) {
  line.option("--svg", files.svg, "a picture of the predicted step")
      .option("--html", files.html, "the same as a page to zoom into")
      .option("--trace", files.trace, "the same for Perfetto or chrome://tracing");
}

void save(const DrawingFiles& files, const Drawing& drawing) {
  if (!files.svg.empty()) save(files.svg, timeline_svg(drawing));
  if (!files.html.empty()) save(files.html, timeline_html(drawing));
  if (!files.trace.empty()) save(files.trace, chrome_trace(drawing));
}

}  // namespace plait
