// What the optimizer's keys say of parameters by patterns of their names.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/errors.h"
#include "config/config.h"

namespace plait {
namespace {

bool fits(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

// "PATTERN=FACTOR"
struct Factor {
  std::string pattern;
  double value;
};

Factor factor_of(std::string_view key, const std::string& text) {
  const size_t is = text.rfind('=');
  char* end = nullptr;
  const std::string number = is == std::string::npos ? "" : text.substr(is + 1);
  const double value = std::strtod(number.c_str(), &end);
  if (is == 0 || number.empty() || *end != 0 || !std::isfinite(value) || value < 0)
    input_error("{}: \"{}\", expected PATTERN=FACTOR as \"*.experts.*=0.1\", the factor at least 0", key, text);
  return {text.substr(0, is), value};
}

constexpr std::string_view kRates = "optim.lr_factors", kDecays = "optim.decay_factors";

double last_factor(std::string_view key, const std::vector<std::string>& texts, const std::string& name) {
  double value = 1;
  for (const std::string& text : texts)
    if (const Factor f = factor_of(key, text); fits(f.pattern, name)) value = f.value;
  return value;
}

void expect_some(std::string_view key, const std::string& pattern, std::span<const std::string> names) {
  if (std::ranges::none_of(names, [&](const std::string& name) { return fits(pattern, name); }))
    input_error("{}: no parameter fits \"{}\"; they are named as {}", key, pattern, names.back());
}

}  // namespace

bool freezes(const OptimConfig& optim, const std::string& parameter) {
  return std::ranges::any_of(optim.freeze, [&](const std::string& pattern) { return fits(pattern, parameter); });
}

double lr_factor(const OptimConfig& optim, const std::string& parameter) {
  return last_factor(kRates, optim.lr_factors, parameter);
}

double decay_factor(const OptimConfig& optim, const std::string& parameter) {
  return last_factor(kDecays, optim.decay_factors, parameter);
}

void check_patterns(const OptimConfig& optim, std::span<const std::string> parameters) {
  for (const std::string& pattern : optim.freeze) expect_some("optim.freeze", pattern, parameters);
  for (const auto& [key, texts] : {std::pair{kRates, &optim.lr_factors}, std::pair{kDecays, &optim.decay_factors}})
    for (const std::string& text : *texts) expect_some(key, factor_of(key, text).pattern, parameters);
  if (std::ranges::all_of(parameters, [&](const std::string& name) { return freezes(optim, name); }))
    input_error("optim.freeze: all parameters stay as they are: there is nothing to train");
}

}  // namespace plait
