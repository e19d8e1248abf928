#include "draw/fit_svg.h"

#include <gtest/gtest.h>

#include "machine/testing/four_ranks.h"

namespace plait {
namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(FitSvg, has_every_sample_and_a_line_through_each_collective) {
  const std::string svg = draw_fits(four_ranks(), "a <small> machine");
  EXPECT_EQ(count(svg, " sent in "), 3 * 4 * 8);
  EXPECT_EQ(count(svg, "<polyline"), 3 * 4);
  EXPECT_EQ(count(svg, "groups of "), 3);
  EXPECT_EQ(count(svg, "a &lt;small&gt; machine"), 1);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0);
  EXPECT_NE(draw_fits({}, "nothing").find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace plait
