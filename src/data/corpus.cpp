#include "data/corpus.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/errors.h"
#include "base/random.h"

namespace plait::data {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (auto entry = fs::directory_iterator(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    if (entry->is_regular_file()) files.push_back(entry->path());
  }
  if (failure) input_error("data.path: cannot read the folder '{}': {}", folder.string(), failure.message());
  if (files.empty()) input_error("data.path: the folder '{}' holds no file", folder.string());
  std::sort(files.begin(), files.end());
  return files;
}

// Tokens are bytes: each needs its place in the vocabulary.
void check_vocabulary(std::span<const uint8_t> bytes, const std::string& path, int64_t vocab_size) {
  const auto beyond = std::ranges::find_if(bytes, [=](uint8_t byte) { return byte >= vocab_size; });
  if (beyond == bytes.end()) return;
  input_error("data.path: byte {} of '{}' is {}, but model.vocab_size = {} has ids 0 to {}; set it to 256 for any text",
              beyond - bytes.begin(), path, *beyond, vocab_size, vocab_size - 1);
}

void append_file(const fs::path& path, std::vector<uint8_t>& tokens, int64_t vocab_size) {
  std::error_code failure;
  const auto size = fs::file_size(path, failure);
  std::ifstream file(path, std::ios::binary);
  if (failure || !file) input_error("data.path: cannot read '{}'", path.string());
  const size_t before = tokens.size();
  tokens.resize(before + size);
  file.read(reinterpret_cast<char*>(tokens.data() + before), static_cast<std::streamsize>(size));
  if (static_cast<size_t>(file.gcount()) != size) {
    input_error("data.path: read {} of {} bytes of '{}'", file.gcount(), size, path.string());
  }
  check_vocabulary(std::span(tokens).subspan(before), path.string(), vocab_size);
}

void append(const std::string& path, std::vector<uint8_t>& tokens, int64_t vocab_size) {
  const size_t before = tokens.size();
  std::error_code failure;
  const auto kind = fs::status(path, failure).type();
  if (kind == fs::file_type::directory) {
    for (const auto& file : files_in(path)) append_file(file, tokens, vocab_size);
  } else if (kind == fs::file_type::regular) {
    append_file(path, tokens, vocab_size);
  } else {
    input_error("data.path: '{}' does not exist; expected a file, a list of files or a folder", path);
  }
  if (tokens.size() == before) input_error("data.path: '{}' is empty", path);
}

// One sequence needs its tokens and the one that follows, the last target.
void check_length(std::string_view part, int64_t have, int64_t seq_length) {
  if (have > seq_length) return;
  input_error(
      "data.path: {} bytes of text for {}, but one sequence needs train.seq_length + 1 = {}; give more text or a "
      "shorter train.seq_length",
      have, part, seq_length + 1);
}

}  // namespace

std::string fingerprint(const Corpus& corpus) {
  constexpr size_t kSamples = 4096, kLongest = 16 << 10;  // all of a text of 64 MiB
  const std::string_view all(reinterpret_cast<const char*>(corpus.tokens.data()), corpus.tokens.size());
  const size_t length = std::min(kLongest, all.size() / kSamples + 1);
  uint64_t hash = hash_name({});
  for (size_t i = 0; i < kSamples; ++i) hash = hash64(hash, hash_name(all.substr(all.size() * i / kSamples, length)));
  return fmt::format("{} + {} tokens, hash {:016x}", corpus.num_training,
                     static_cast<int64_t>(corpus.tokens.size()) - corpus.num_training, hash);
}

Corpus load_corpus(const CorpusSource& source) {
  if (source.paths.empty()) input_error("data.path: no file given");
  if (!(source.validation_fraction >= 0 && source.validation_fraction < 1)) {
    input_error("data.validation: {} is not a fraction in [0, 1)", source.validation_fraction);
  }
  Corpus corpus;
  for (const auto& path : source.paths) append(path, corpus.tokens, source.vocab_size);
  const auto all = static_cast<int64_t>(corpus.tokens.size());
  const int64_t held_out = std::llround(static_cast<double>(all) * source.validation_fraction);
  corpus.num_training = all - held_out;
  check_length("training", corpus.num_training, source.seq_length);
  if (source.validation_fraction > 0) check_length("validation", held_out, source.seq_length);
  return corpus;
}

}  // namespace plait::data
