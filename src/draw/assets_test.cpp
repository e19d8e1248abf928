#include "draw/assets.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/files.h"

namespace plait {
namespace {

TEST(Assets, are_the_files_as_they_stand) {
  for (const char* name : {"timeline.html", "timeline.css", "timeline.js", "grid.html", "grid.css"})
    EXPECT_EQ(asset(name), read_text(std::string("src/draw/assets/") + name)) << name;
  EXPECT_THROW(asset("nothing.css"), ContractError);
}

TEST(Assets, fill_a_page_with_values_and_with_each_other) {
  const std::string page = filled("grid.html", {{"body", "<p>{{not.this}}</p>\n"}});
  EXPECT_TRUE(page.ends_with("</head><body>\n<p>{{not.this}}</p>\n</body></html>\n")) << page;
  EXPECT_NE(page.find(asset("grid.css")), std::string::npos);
  EXPECT_EQ(page.find("{{grid"), std::string::npos);
  EXPECT_THROW(filled("grid.html", {}), ContractError) << "nothing is called body";
}

}  // namespace
}  // namespace plait
