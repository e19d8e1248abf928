// Sleeping on a word until it changes, with a deadline: what std::atomic::wait lacks. Linux.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace plait::wire {

// Returns when `word` is no longer `seen`, when woken, or when `longest` has passed; the caller looks again.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds longest);

void wake_all(const std::atomic<uint32_t>& word);

}  // namespace plait::wire
