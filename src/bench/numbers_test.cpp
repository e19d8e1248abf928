#include "bench/numbers.h"

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

constexpr const char* kDocument = "# Numbers\n\n<!-- bench x: begin -->\nold\nlines\n<!-- bench x: end -->\n\nrest\n";

TEST(Numbers, take_the_place_of_the_old_ones) {
  EXPECT_EQ(with_section(kDocument, "bench x", "new", "n.md"),
            "# Numbers\n\n<!-- bench x: begin -->\nnew\n<!-- bench x: end -->\n\nrest\n");
  const std::string once = with_section(kDocument, "bench x", "new\n\n", "n.md");
  EXPECT_EQ(with_section(once, "bench x", "new", "n.md"), once);
}

TEST(Numbers, have_a_place_or_say_what_is_missing) {
  EXPECT_EQ(refusal<InputError>([] { with_section(kDocument, "bench y", "new", "docs/n.md"); }),
            "docs/n.md: no section for these numbers; expected the lines <!-- bench y: begin --> and "
            "<!-- bench y: end -->");
  EXPECT_THROW(with_section("<!-- a: end -->\n<!-- a: begin -->\n", "a", "new", "n.md"), InputError);
}

TEST(Numbers, name_the_command_that_made_them) {
  const std::vector<std::string> words = {"--ranks",        "4",      "--numbers", "docs/numbers.md",
                                          "model.x=[1, 2]", "--json", "--unnamed"};
  EXPECT_EQ(command_of("bench x", words), "./plait bench x --ranks 4 'model.x=[1, 2]' --json");
  EXPECT_EQ(command_of("bench x", std::vector<std::string>{"--numbers=n.md"}), "./plait bench x");
}

TEST(Numbers, stand_in_the_file_with_machine_and_commit) {
  const ScratchFolder folder;
  const std::string path = folder / "n.md";
  spill(path, kDocument);
  write_numbers({path, "bench x", Unnamed::accepted}, {.command = "./plait bench x", .text = fenced("a  b\n1  2\n")});
  const std::string text = slurp(path);
  EXPECT_NE(text.find("    ./plait bench x\n\n" + this_machine()), std::string::npos) << text;
  EXPECT_NE(text.find("commit"), std::string::npos) << text;
  EXPECT_NE(text.find("```\na  b\n1  2\n```\n<!-- bench x: end -->\n\nrest\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("old"), std::string::npos);
}

// What the figures of a repository are of: sources as committed, then changed.
TEST(Numbers, are_refused_where_no_commit_says_what_they_are_of) {
  const ScratchFolder folder;
  const std::string path = folder / "docs/n.md", git = "git -C '" + folder.str() + "' -c user.name=n -c user.email=e ";
  std::filesystem::create_directories(folder / "docs");
  std::filesystem::create_directories(folder / "src");
  spill(path, kDocument);
  const auto says = [&] { return refusal<InputError>([&] { expect_place({path, "bench x"}); }); };
  EXPECT_EQ(says(), path + ": git names no commit of the folder '" + (folder / "docs") +
                        "'; commit first, so that the figures say what they are of, or give --unnamed");
  ASSERT_EQ(std::system((git + "init -q && " + git + "add . && " + git + "commit -q -m one").c_str()), 0);
  EXPECT_EQ(says(), "accepted");
  write_numbers({path, "bench x"}, {.command = "c", .text = "t"});
  EXPECT_NE(slurp(path).find("; commit "), std::string::npos);
  EXPECT_EQ(says(), "accepted") << "the document itself may change";
  spill(folder / "src/a.cpp", "int a;\n");
  EXPECT_NE(says().find("the sources have changes since commit "), std::string::npos) << says();
  EXPECT_NO_THROW(expect_place({path, "bench x", Unnamed::accepted}));
}

}  // namespace
}  // namespace plait
