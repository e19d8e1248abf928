// Tensors in a file, in the safetensors format: a length, a JSON header with names, types, shapes and offsets, the
// data. Written one tensor after another, so that a whole model need not be in memory twice. Our files also carry a
// checksum per tensor, and one of the header, in the header's free text, so a changed byte is found wherever it is;
// other programs ignore them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"

namespace plait {

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  // Ours: float32, float64 or int64. Of other programs also bfloat16, float16, int32 and uint8, and Undefined for any
  // other type.
  at::ScalarType dtype = at::kFloat;

  int64_t bytes() const;  // REQUIRES a type that is known
  bool operator==(const TensorInfo&) const = default;
};

// Called as bytes of data were written, with how many.
using Written = std::function<void(int64_t bytes)>;

class SafetensorsWriter {
 public:
  // Writes the header aside. REQUIRES: names are unique.
  SafetensorsWriter(const std::string& path, std::vector<TensorInfo> tensors, Written written = {});

  // The tensors follow in the order given above, contiguous, of the promised shape and type.
  void write(const at::Tensor& next);

  // Brings the file to the disk under its name. REQUIRES: all tensors were written.
  void finish();

 private:
  std::vector<TensorInfo> tensors_;
  std::string checksums_;  // 16 hex digits per tensor
  DurableFile file_;
  Written written_;
};

class SafetensorsFile {
 public:
  // Reads and checks the header: InputError in one line for any damage (names the file, what was read, what was
  // expected). A tensor of a type that is not known is listed, and refused only when it is read.
  explicit SafetensorsFile(std::string path);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of their data
  bool has(const std::string& name) const { return places_.contains(name); }
  const TensorInfo& info(const std::string& name) const { return tensors_[places_.at(name).index]; }  // REQUIRES has

  // InputError for an unknown name, for a type that is none of ours, for a file that has become shorter, and for data
  // that differs from its checksum.
  at::Tensor read(const std::string& name) const;

 private:
  struct Place {
    size_t index;    // in tensors_
    int64_t offset;  // in the file
    std::string type;
  };

  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, Place> places_;
  std::string checksums_;  // empty when the file has none
};

}  // namespace plait
