#include "base/markup.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Markup, says_in_names_what_a_reader_of_tags_would_take_for_a_tag) {
  EXPECT_EQ(escaped("a < b && \"c\" > 'd'"), "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
  EXPECT_EQ(escaped("&amp;"), "&amp;amp;");
}

}  // namespace
}  // namespace plait
