#include "data/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/errors.h"

namespace plait::data {
namespace {

namespace fs = std::filesystem;

// A fresh folder for one test.
class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("corpus_" + std::string(test_name()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string str() const { return path_.string(); }

 private:
  static const char* test_name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }
  fs::path path_;
};

std::string text_of(std::span<const uint8_t> tokens) { return {tokens.begin(), tokens.end()}; }

std::string refusal(const CorpusSource& source) {
  try {
    load_corpus(source);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Corpus, is_the_bytes_of_a_file_with_the_last_part_held_out) {
  const Folder folder;
  const std::string text("to be\xff\0or not", 13);
  const auto corpus = load_corpus({.paths = {folder.write("a.txt", text)}, .validation_fraction = 0.25});
  EXPECT_EQ(text_of(corpus.training()), text.substr(0, 10));
  EXPECT_EQ(text_of(corpus.validation()), "not");
}

TEST(Corpus, joins_a_list_as_given_and_a_folder_sorted_by_name) {
  const Folder folder;
  const auto b = folder.write("b.txt", "second "), a = folder.write("a.txt", "first "), c = folder.write("c", "third");
  fs::create_directories(folder.str() + "/a_subfolder");
  EXPECT_EQ(text_of(load_corpus({.paths = {folder.str()}, .validation_fraction = 0}).training()), "first second third");
  EXPECT_EQ(text_of(load_corpus({.paths = {b, a}, .validation_fraction = 0}).training()), "second first ");
}

TEST(Corpus, refuses_what_cannot_be_used_with_one_line_that_names_it) {
  const Folder folder;
  const auto nothing = folder.write("nothing.txt", ""), ten = folder.write("ten.txt", "0123456789");
  EXPECT_EQ(refusal({.paths = {}}), "data.path: no file given");
  EXPECT_EQ(refusal({.paths = {ten, "no/such.txt"}}),
            "data.path: 'no/such.txt' does not exist; expected a file, a list of files or a folder");
  EXPECT_EQ(refusal({.paths = {nothing}}), "data.path: '" + nothing + "' is empty");
  EXPECT_EQ(refusal({.paths = {ten}, .validation_fraction = 1}), "data.validation: 1 is not a fraction in [0, 1)");
  fs::create_directories(folder.str() + "/hollow");
  EXPECT_EQ(refusal({.paths = {folder.str() + "/hollow"}}),
            "data.path: the folder '" + folder.str() + "/hollow' holds no file");
}

TEST(Corpus, refuses_text_shorter_than_one_sequence_and_its_last_target) {
  const Folder folder;
  const auto ten = folder.write("ten.txt", "0123456789");
  EXPECT_EQ(refusal({.paths = {ten}, .validation_fraction = 0, .seq_length = 9}), "accepted");
  EXPECT_EQ(refusal({.paths = {ten}, .validation_fraction = 0, .seq_length = 10}),
            "data.path: 10 bytes of text for training, but one sequence needs train.seq_length + 1 = 11; give more "
            "text or a shorter train.seq_length");
  EXPECT_EQ(refusal({.paths = {ten}, .validation_fraction = 0.3, .seq_length = 2}), "accepted");
  EXPECT_NE(
      refusal({.paths = {ten}, .validation_fraction = 0.3, .seq_length = 3}).find("3 bytes of text for validation"),
      std::string::npos);
}

}  // namespace
}  // namespace plait::data
