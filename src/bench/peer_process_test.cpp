#include "bench/peer_process.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace plait {
namespace {

TEST(PeerProcess, answers_line_by_line) {
  PeerProcess peer({"/bin/cat"});
  EXPECT_EQ(peer.ask("one"), "one");
  EXPECT_EQ(peer.ask("two words"), "two words");
}

// Each must see the end of its own input when its owner lets go, though the other was started with that input open.
TEST(PeerProcess, ends_though_another_was_started_meanwhile) {
  auto first = std::make_unique<PeerProcess>(std::vector<std::string>{"/bin/cat"});
  PeerProcess second({"/bin/cat"});
  first.reset();
  EXPECT_EQ(second.ask("still here"), "still here");
}

TEST(PeerProcess, that_is_not_there_or_has_ended_is_said_in_a_line) {
  EXPECT_THROW(PeerProcess({"no/such/program"}), InputError);
  PeerProcess silent({"/bin/true"});
  EXPECT_THROW(silent.ask("go"), InputError);
}

}  // namespace
}  // namespace plait
