// Paths in a config: any bytes, and the home folder.
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/json.h"
#include "base/testing/scratch_folder.h"
#include "base/text.h"
#include "config/config.h"

namespace plait {
namespace {

using Overrides = std::vector<std::string>;

// Any bytes but 0 are a path; a text file, and what other programs read, hold letters.
TEST(Config, keeps_any_bytes_of_a_path) {
  for (const std::string path :
       {"caf\xe9.txt", "\x7f", "a\nb", "bytes:x", "%41", "quote\"back\\slash", "caf\u00e9 \u20ac"}) {
    Config config = resolve(load_config(""));
    config.log.dir = path;
    config.data.path = {path, "plain"};
    const std::string toml = to_toml(config);
    EXPECT_TRUE(is_utf8(toml)) << toml;
    EXPECT_EQ(resolve(parse_config(toml, "x.toml")), config) << toml;
    EXPECT_EQ(JsonObject::parse(JsonLine{}.add("config", toml).str(), "").text("config"), toml);
  }
  EXPECT_EQ(parse_config("", "", Overrides{"log.dir=caf\xe9"}).log.dir, "caf\xe9") << "as a shell gives it";
  EXPECT_NE(refusal<InputError>([] { parse_config("", "", Overrides{"log.dir=bytes:%9"}); }).find("log.dir"),
            std::string::npos);
}

}  // namespace
}  // namespace plait
