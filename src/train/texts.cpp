#include "train/texts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace plait {
namespace {

// A text in whole words, since the wire carries no bytes.
at::Tensor words(const std::string& text, uint64_t bytes) {
  const at::Tensor all = at::zeros({static_cast<int64_t>((bytes + 7) / 8)}, at::kLong);
  std::memcpy(all.mutable_data_ptr<int64_t>(), text.data(), std::min<size_t>(text.size(), bytes));
  return all;
}

std::string text(const int64_t* words, uint64_t bytes) {
  return {reinterpret_cast<const char*>(words), static_cast<size_t>(bytes)};
}

}  // namespace

std::vector<uint64_t> numbers_of_all(wire::Group& group, uint64_t mine) {
  const at::Tensor own = at::zeros({1}, at::kLong), all = at::zeros({group.size(), 1}, at::kLong);
  std::memcpy(own.mutable_data_ptr<int64_t>(), &mine, sizeof mine);
  group.all_gather(own, all);
  std::vector<uint64_t> numbers(static_cast<size_t>(group.size()));
  std::memcpy(numbers.data(), all.const_data_ptr<int64_t>(), numbers.size() * sizeof(uint64_t));
  return numbers;
}

std::string text_of_first(wire::Group& group, const std::string& mine) {
  const uint64_t bytes = numbers_of_all(group, mine.size()).front();
  if (bytes == 0) return {};
  const at::Tensor all = words(mine, bytes);
  group.broadcast(all, 0);
  return text(all.const_data_ptr<int64_t>(), bytes);
}

std::vector<std::string> texts_of_all(wire::Group& group, const std::string& mine) {
  const std::vector<uint64_t> sizes = numbers_of_all(group, mine.size());
  const at::Tensor own = words(mine, std::max<uint64_t>(1, *std::ranges::max_element(sizes)));
  const at::Tensor all = at::zeros({group.size(), own.numel()}, at::kLong);
  group.all_gather(own, all);
  std::vector<std::string> texts;
  for (int64_t m = 0; m < group.size(); ++m)
    texts.push_back(text(all.const_data_ptr<int64_t>() + m * own.numel(), sizes[static_cast<size_t>(m)]));
  return texts;
}

}  // namespace plait
