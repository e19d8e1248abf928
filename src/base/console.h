// Standard output of a long run. Whoever reads it may be slow, asleep or gone; no run waits for that once it was told
// to end, and none ends by what a write says.
#pragma once
#include <string_view>

namespace plait {

// Writes the text, or what of it is taken: the rest is dropped where nothing is taken for a second while the process is
// told to end, and where nobody reads any more (which tells it to, by SIGPIPE).
void say_text(std::string_view text);

}  // namespace plait
