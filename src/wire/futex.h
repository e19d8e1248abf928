// Sleeping on a word until it changes, with a deadline: what std::atomic::wait lacks. Linux.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace plait::wire {

// Who may sleep on a word: threads of this process, or of any process that maps its memory.
enum class Reach { process, node };

// Returns when `word` is no longer `seen`, when woken, or when `longest` has passed; the caller looks again.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds longest,
                 Reach reach = Reach::process);

void wake_all(const std::atomic<uint32_t>& word, Reach reach = Reach::process);

}  // namespace plait::wire
