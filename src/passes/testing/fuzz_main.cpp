// passes_fuzz EDITS SEED: more random edits than the tests make; exit code 1 where one was accepted and is wrong.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "passes/testing/fuzz.h"

namespace {

bool read(const char* text, auto& number) {
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

int main(int argc, char** argv) {
  int edits = 0;
  uint64_t seed = 0;
  if (argc != 3 || !read(argv[1], edits) || !read(argv[2], seed)) {
    std::fprintf(stderr, "usage: passes_fuzz EDITS SEED\n");
    return 2;
  }
  const auto report = plait::oracle::fuzz(edits, seed);
  std::printf("%d edits: %d unchanged, %d refused, %d accepted and right, %zu accepted and wrong\n", report.edits,
              report.unchanged, report.refused, report.right, report.wrong.size());
  for (const std::string& wrong : report.wrong) std::printf("\n%s\n", wrong.c_str());
  return report.wrong.empty() ? 0 : 1;
}
