// Text for tests of whole runs: made here, the same everywhere.
#pragma once
#include "base/random.h"
#include "data/corpus.h"

namespace plait {

// `bytes` letters of an alphabet of 200 with a skewed distribution, the last tenth for validation.
inline data::Corpus random_corpus(int64_t bytes = 20000) {
  data::Corpus corpus;
  const uint64_t key = random_key(1, "corpus");
  for (int64_t i = 0; i < bytes; ++i) {
    const double u = uniform(key, static_cast<uint64_t>(i));
    corpus.tokens.push_back(static_cast<uint8_t>(200 * u * u));
  }
  corpus.num_training = bytes * 9 / 10;
  return corpus;
}

}  // namespace plait
