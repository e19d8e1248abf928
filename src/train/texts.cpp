#include "train/texts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace plait {
namespace {

// A text as so many bytes, with zeros behind it.
at::Tensor bytes_of(const std::string& text, uint64_t bytes) {
  const at::Tensor all = at::zeros({static_cast<int64_t>(bytes)}, at::kByte);
  std::memcpy(all.mutable_data_ptr<uint8_t>(), text.data(), std::min<size_t>(text.size(), bytes));
  return all;
}

std::string text(const uint8_t* bytes, uint64_t size) {
  return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
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
  const at::Tensor all = bytes_of(mine, bytes);
  group.broadcast(all, 0);
  return text(all.const_data_ptr<uint8_t>(), bytes);
}

std::vector<std::string> texts_of_all(wire::Group& group, const std::string& mine) {
  const std::vector<uint64_t> sizes = numbers_of_all(group, mine.size());
  const at::Tensor own = bytes_of(mine, std::max<uint64_t>(1, *std::ranges::max_element(sizes)));
  const at::Tensor all = at::zeros({group.size(), own.numel()}, at::kByte);
  group.all_gather(own, all);
  std::vector<std::string> texts;
  for (int64_t m = 0; m < group.size(); ++m)
    texts.push_back(text(all.const_data_ptr<uint8_t>() + m * own.numel(), sizes[static_cast<size_t>(m)]));
  return texts;
}

std::vector<std::vector<double>> of_all_ranks(wire::Group& group, std::vector<double> mine) {
  const int64_t n = static_cast<int64_t>(mine.size());
  const at::Tensor all = at::empty({group.size(), n}, at::kDouble);
  group.all_gather(at::from_blob(mine.data(), {n}, at::kDouble), all);
  std::vector<std::vector<double>> numbers;
  for (int64_t m = 0; m < group.size(); ++m) {
    const double* row = all.const_data_ptr<double>() + m * n;
    numbers.emplace_back(row, row + n);
  }
  return numbers;
}

}  // namespace plait
