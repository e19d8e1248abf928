#include "checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/errors.h"
#include "base/random.h"

namespace plait {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLongestHeader = 100'000'000;
constexpr size_t kDigits = 16;

struct StoredType {
  std::string_view name;
  at::ScalarType dtype;
  bool ours;  // our files hold it; the others come from other programs
};
constexpr StoredType kTypes[] = {{"F32", at::kFloat, true},      {"F64", at::kDouble, true}, {"I64", at::kLong, true},
                                 {"BF16", at::kBFloat16, false}, {"F16", at::kHalf, false},  {"I32", at::kInt, false},
                                 {"U8", at::kByte, false}};

std::string_view name_of(at::ScalarType dtype) {
  const auto* type = std::ranges::find(kTypes, dtype, &StoredType::dtype);
  expects(type != std::end(kTypes) && type->ours, "safetensors files of ours hold float32, float64 and int64");
  return type->name;
}

// Undefined where it is none of those.
at::ScalarType dtype_of(std::string_view name) {
  const auto* type = std::ranges::find(kTypes, name, &StoredType::name);
  return type == std::end(kTypes) ? at::ScalarType::Undefined : type->dtype;
}

std::string names_of_types() {
  std::vector<std::string_view> names;
  for (const StoredType& type : kTypes) names.push_back(type.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// 64 bits over all bytes, eight at a time; every step is invertible, so one changed word always shows.
uint64_t checksum(std::span<const std::byte> bytes) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  const auto mix = [&](uint64_t word) { sum = std::rotl((sum ^ word) * 0xbf58476d1ce4e5b9, 29); };
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    mix(word);
  }
  for (const auto byte : bytes) mix(static_cast<uint64_t>(byte));
  return hash64(sum, 0);
}

std::string digits(std::span<const std::byte> bytes) { return fmt::format("{:016x}", checksum(bytes)); }

// Of a header without its own digits.
std::string digits_of_header(std::string header, std::string_view own) {
  const size_t at = header.find(own);
  if (at != std::string::npos) header.replace(at, own.size(), std::string(own.size(), '0'));
  return digits(std::as_bytes(std::span(header)));
}

// `checksums` and, behind them, that of the header itself.
std::string header_of(const std::vector<TensorInfo>& tensors, std::string_view checksums) {
  const std::string nothing(kDigits, '0');
  nlohmann::ordered_json header;
  header["__metadata__"]["header"] = nothing;
  header["__metadata__"]["checksums"] = checksums;
  int64_t offset = 0;
  for (const auto& tensor : tensors) {
    auto& entry = header[tensor.name];
    entry["dtype"] = name_of(tensor.dtype);
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + tensor.bytes()};
    offset += tensor.bytes();
  }
  std::string json = header.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const std::string own = digits(std::as_bytes(std::span(json)));
  return json.replace(json.find(nothing), kDigits, own);
}

// Ours hold the checksums of tensors and, but for older ones, of the header; those of other programs neither.
void check_header(const std::string& path, const std::string& text, const nlohmann::json& header) {
  if (!header.contains("__metadata__")) return;
  const nlohmann::json& metadata = header["__metadata__"];
  const std::string own = metadata.value("header", "");
  const bool older = metadata.size() == 1 || !metadata.contains("checksums");
  if (own.empty() ? older : own == digits_of_header(text, own)) return;
  input_error("{}: the header is damaged: it differs from its checksum", path);
}

// The product of the sizes times the size of an element; nothing when a size is negative or the product leaves int64.
std::optional<int64_t> bytes_of_shape(const std::vector<int64_t>& shape, int64_t element) {
  int64_t bytes = element;
  for (const auto size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return {};
  }
  return bytes;
}

struct Entry {
  TensorInfo info;
  std::string type;  // as the file names it
  int64_t begin, end;
};

// Checks one header entry by itself. Any surprise in the JSON is caught by the caller.
Entry read_entry(const std::string& path, const std::string& name, const nlohmann::json& json) {
  const auto offsets = json.at("data_offsets").get<std::vector<int64_t>>();
  auto shape = json.at("shape").get<std::vector<int64_t>>();
  auto type = json.at("dtype").get<std::string>();
  const at::ScalarType dtype = dtype_of(type);
  Entry entry{.info = {.name = name, .shape = std::move(shape), .dtype = dtype}, .type = std::move(type)};
  const bool known = entry.info.dtype != at::ScalarType::Undefined;
  const auto expected = bytes_of_shape(entry.info.shape, known ? at::elementSize(entry.info.dtype) : 0);
  if (!expected || offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] ||
      (known && offsets[1] - offsets[0] != *expected)) {
    input_error("{}: tensor '{}' of shape [{}] has data at [{}]; expected {} bytes", path, name,
                fmt::join(entry.info.shape, ", "), fmt::join(offsets, ", "), expected.value_or(-1));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

std::vector<Entry> read_entries(const std::string& path, const nlohmann::json& header) {
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name != "__metadata__") entries.push_back(read_entry(path, name, json));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.info.name) < std::tie(b.begin, b.end, b.info.name);
  });
  return entries;
}

void check_contiguous(const std::string& path, const std::vector<Entry>& entries, int64_t data_bytes) {
  int64_t offset = 0;
  for (const auto& entry : entries) {
    if (entry.begin != offset) {
      input_error("{}: data of tensor '{}' begins at {}; expected {}", path, entry.info.name, entry.begin, offset);
    }
    offset = entry.end;
  }
  if (offset != data_bytes) input_error("{}: holds {} bytes of data; expected {}", path, data_bytes, offset);
}

std::string read_header(const std::string& path, int64_t file_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) input_error("{}: cannot be read; expected a safetensors file", path);
  uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), kLengthBytes);
  if (!file) input_error("{}: has {} bytes; expected a header of at least {}", path, file_bytes, kLengthBytes);
  if (length > static_cast<uint64_t>(std::min(kLongestHeader, file_bytes - kLengthBytes))) {
    input_error("{}: says its header has {} bytes, but the file has {}", path, length, file_bytes);
  }
  std::string text(length, ' ');
  file.read(text.data(), static_cast<std::streamsize>(length));
  if (!file) input_error("{}: the header ends early; expected {} bytes", path, length);
  return text;
}

}  // namespace

int64_t TensorInfo::bytes() const {
  return bytes_of_shape(shape, static_cast<int64_t>(at::elementSize(dtype))).value_or(0);
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors, Written written)
    : tensors_(std::move(tensors)), file_(path), written_(std::move(written)) {
  std::set<std::string> names;
  for (const auto& tensor : tensors_) expects(names.insert(tensor.name).second, "tensors of a file have unique names");
  const auto header = header_of(tensors_, std::string(tensors_.size() * kDigits, '0'));
  const uint64_t length = header.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(header);
}

void SafetensorsWriter::write(const at::Tensor& next) {
  constexpr size_t kPart = 16 << 20;
  const size_t index = checksums_.size() / kDigits;
  expects(index < tensors_.size(), "more tensors written than promised");
  const auto& promised = tensors_[index];
  expects(next.is_contiguous() && next.scalar_type() == promised.dtype && next.sizes() == promised.shape,
          "a tensor is written as promised: " + promised.name);
  const auto bytes = bytes_of(next);
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    const auto part = bytes.subspan(at, std::min(kPart, bytes.size() - at));
    file_.write(part);
    if (written_) written_(static_cast<int64_t>(part.size()));
  }
  checksums_ += digits(bytes);
}

void SafetensorsWriter::finish() {
  expects(checksums_.size() == tensors_.size() * kDigits, "all promised tensors are written before the end");
  file_.write_at(kLengthBytes, header_of(tensors_, checksums_));
  file_.commit();
}

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)) {
  std::error_code failure;
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path_, failure));
  if (failure) input_error("{}: {}; expected a safetensors file", path_, failure.message());
  const auto text = read_header(path_, file_bytes);
  const int64_t data_at = kLengthBytes + static_cast<int64_t>(text.size());
  try {
    const auto header = nlohmann::json::parse(text);
    check_header(path_, text, header);
    auto entries = read_entries(path_, header);
    check_contiguous(path_, entries, file_bytes - data_at);
    for (auto& entry : entries) {
      places_[entry.info.name] = {.index = tensors_.size(), .offset = data_at + entry.begin, .type = entry.type};
      tensors_.push_back(std::move(entry.info));
    }
    if (header.contains("__metadata__")) checksums_ = header["__metadata__"].value("checksums", "");
  } catch (const nlohmann::json::exception& error) {
    input_error("{}: the header is damaged: {}", path_, error.what());
  }
  if (!checksums_.empty() && checksums_.size() != tensors_.size() * kDigits) {
    input_error("{}: the header is damaged: {} digits of checksums for {} tensors", path_, checksums_.size(),
                tensors_.size());
  }
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const auto place = places_.find(name);
  if (place == places_.end()) input_error("{}: holds no tensor '{}'", path_, name);
  const auto& [index, offset, type] = place->second;
  if (tensors_[index].dtype == at::ScalarType::Undefined)
    input_error("{}: tensor '{}' has type {}; expected one of {}", path_, name, type, names_of_types());
  const auto tensor = at::empty(tensors_[index].shape, tensors_[index].dtype);
  std::ifstream file(path_, std::ios::binary);
  file.seekg(offset);
  file.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (tensor.nbytes() > 0 && !file) input_error("{}: ends within tensor '{}'", path_, name);
  if (!checksums_.empty() && digits(bytes_of(tensor)) != checksums_.substr(index * kDigits, kDigits)) {
    input_error("{}: the data of tensor '{}' is damaged: it differs from its checksum", path_, name);
  }
  return tensor;
}

}  // namespace plait
