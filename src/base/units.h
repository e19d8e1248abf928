// Numbers as a person reads them: three significant digits and a unit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait {

std::string human_count(double count);      // 950, 12.3k, 1.10M, 6.70G, 1.20T
std::string human_bytes(double bytes);      // 950 B, 12.3 KiB, 1.10 MiB
std::string human_seconds(double seconds);  // 3.20 us, 850 ms, 12.3 s, 3 min 20 s, 2 h 05 min

// Of tables whose cells compare: so many decimals, nothing for NaN.
std::string percent(double share, int decimals = 1);  // 12.3%
std::string times(double ratio);                      // 1.25x
std::string mib(double bytes, int decimals = 1);      // 12.3, where the column says MiB

// "16GB" is 16 * 10^9, "16 GiB" 16 * 2^30, "4096" and "4096B" are bytes; nothing for what is not a positive size.
std::optional<int64_t> parse_bytes(std::string_view text);

// Seconds of "90s", "10m", "7h50m", "1d12h"; nothing for what is no positive time, or has no units.
std::optional<double> parse_seconds(std::string_view text);

}  // namespace plait
