// The text a run learns from, as tokens in one buffer: byte tokens, 256 ids. Read once at start-up; batches are cut
// from it without copying or state (batch.h).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plait::data {

struct CorpusSource {
  std::vector<std::string> paths;    // files, joined in this order; a folder stands for its files sorted by name
  double validation_fraction = 0.1;  // of the tokens, at the end; 0: none
  int64_t seq_length = 1;            // both parts must hold one sequence and the token that follows it
  int64_t vocab_size = 256;          // every byte must be below
};

struct Corpus {
  std::vector<uint8_t> tokens;
  int64_t num_training = 0;  // tokens before this place are for training, the others for validation

  std::span<const uint8_t> training() const { return std::span(tokens).first(num_training); }
  std::span<const uint8_t> validation() const { return std::span(tokens).subspan(num_training); }
};

// Tells texts apart: the number of tokens, how many of them train, and a hash of samples spread over all.
std::string fingerprint(const Corpus& corpus);

// InputError for a path that is missing, unreadable or empty, for too few tokens, and for a byte beyond the vocabulary.
Corpus load_corpus(const CorpusSource& source);

}  // namespace plait::data
