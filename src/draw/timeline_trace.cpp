#include <fmt/format.h>

#include "base/json.h"
#include "draw/timeline_rows.h"

namespace plait {

std::string chrome_trace(const Drawing& drawing) {
  std::string events;
  const auto put = [&](const std::string& event) { events += (events.empty() ? "\n" : ",\n") + event; };
  for (const TimelineRow& row : timeline_rows(drawing)) {
    put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", row.rank));
    put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", row.rank, row.lane,
                    json_quoted(drawing.lanes[row.lane])));
    for (const TimeSpan* span : row.spans) {
      const StepNote& note = drawing.notes[span->step];
      std::string lines;
      for (const std::string& line : note.lines) lines += (lines.empty() ? "" : "; ") + line;
      const std::string waited =
          span->met > span->start ? fmt::format(R"(,"waited_us":{:.3f})", (span->met - span->start) * 1e6) : "";
      put(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"cat":{},"args":{{)"
                      R"("step":{},"value":{},"about":{}{}}}}})",
                      row.rank, row.lane, span->start * 1e6, (span->end - span->start) * 1e6, json_quoted(note.title),
                      json_quoted(name(note.kind)), span->step, json_quoted(note.name), json_quoted(lines), waited));
    }
  }
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{}}},\"traceEvents\":[{}\n]}}\n",
                     json_quoted(drawing.title), events);
}

}  // namespace plait
