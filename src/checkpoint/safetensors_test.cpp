#include "checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "base/errors.h"
#include "base/testing/scratch_folder.h"

namespace plait {
namespace {

const std::vector<TensorInfo> kTensors = {{"b.weight", {2, 3}, at::kFloat},
                                          {"a.weight", {5}, at::kDouble},
                                          {"none", {0, 4}, at::kFloat},
                                          {"count", {}, at::kLong}};

at::Tensor content_of(const TensorInfo& info) {
  return at::arange(7, 7 + std::max<int64_t>(0, info.bytes() / at::elementSize(info.dtype)), info.dtype)
      .reshape(info.shape);
}

void write(const std::string& path, const std::vector<TensorInfo>& tensors = kTensors) {
  SafetensorsWriter writer(path, tensors);
  for (const auto& info : tensors) writer.write(content_of(info));
  writer.finish();
}

std::string file_of(const std::string& header, int64_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, 'x');
}

// What reading a file of these bytes says, header and all tensors.
std::string complaint(const std::string& path, const std::string& bytes) {
  spill(path, bytes);
  return refusal<InputError>([&] {
    const SafetensorsFile file(path);
    for (const auto& info : file.tensors()) file.read(info.name);
  });
}

TEST(Safetensors, gives_back_what_was_written) {
  const ScratchFolder folder;
  write(folder / "x.safetensors");
  const SafetensorsFile file(folder / "x.safetensors");
  ASSERT_EQ(file.tensors().size(), 4u);
  for (const auto& info : kTensors) {
    EXPECT_NE(std::find(file.tensors().begin(), file.tensors().end(), info), file.tensors().end());
    EXPECT_TRUE(at::equal(file.read(info.name), content_of(info)));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "x.safetensors.tmp"));
}

TEST(Safetensors, is_laid_out_as_the_format_says) {
  const ScratchFolder folder;
  write(folder / "x", {{"w", {2}, at::kFloat}});
  const auto bytes = slurp(folder / "x");
  uint64_t length = 0;
  std::copy_n(bytes.data(), 8, reinterpret_cast<char*>(&length));
  EXPECT_EQ(length % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + length + 8);
  EXPECT_NE(bytes.find(R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})"), std::string::npos);
  const float expected[] = {7, 8};
  EXPECT_EQ(bytes.substr(8 + length), std::string(reinterpret_cast<const char*>(expected), 8));
}

TEST(Safetensors, reads_files_of_other_programs_without_checksums) {
  const ScratchFolder folder;
  const auto header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}})";
  EXPECT_EQ(complaint(folder / "x", file_of(header, 8)), "accepted");
}

TEST(Safetensors, reads_what_other_programs_hold_and_refuses_only_what_is_asked_for) {
  const ScratchFolder folder;
  const std::string header =
      R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
      R"("i":{"dtype":"I32","shape":[1],"data_offsets":[6,10]},"u":{"dtype":"U8","shape":[2],"data_offsets":[10,12]},)"
      R"("q":{"dtype":"F4","shape":[3],"data_offsets":[12,14]},"w":{"dtype":"F32","shape":[1],"data_offsets":[14,18]}})";
  const auto bytes = file_of(header, 0) + std::string("\x00\x3c\x00\xc0", 4) + std::string("\x80\x3f", 2) +
                     std::string("\xfe\xff\xff\xff", 4) + std::string("\x07\xff", 2) + "qq" +
                     std::string("\x00\x00\x00\x3f", 4);
  spill(folder / "x", bytes);
  const SafetensorsFile file(folder / "x");
  const auto values = [&](const char* name) {
    const at::Tensor t = file.read(name).to(at::kDouble);
    return std::vector<double>(t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel());
  };
  EXPECT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(values("h"), (std::vector<double>{1, -2}));
  EXPECT_EQ(values("b"), (std::vector<double>{1}));
  EXPECT_EQ(values("i"), (std::vector<double>{-2}));
  EXPECT_EQ(values("u"), (std::vector<double>{7, 255}));
  EXPECT_EQ(values("w"), (std::vector<double>{0.5}));
  EXPECT_EQ(refusal<InputError>([&] { file.read("q"); }),
            (folder / "x") + ": tensor 'q' has type F4; expected one of F32, F64, I64, BF16, F16, I32, U8");
}

TEST(Safetensors, costs_a_small_header_beyond_the_payload) {
  const ScratchFolder folder;
  std::vector<TensorInfo> tensors;
  int64_t payload = 0;
  for (int i = 0; i < 50; ++i) {
    tensors.push_back({fmt::format("layers.{}.weight", i), {64, 32}, at::kFloat});
    payload += tensors.back().bytes();
  }
  write(folder / "x", tensors);
  EXPECT_LE(static_cast<int64_t>(std::filesystem::file_size(folder / "x")), payload + 256 + 50 * 128);
}

TEST(Safetensors, notices_every_single_damaged_byte) {
  const ScratchFolder folder;
  write(folder / "x");
  const auto whole = slurp(folder / "x");
  ASSERT_EQ(complaint(folder / "y", whole), "accepted");
  for (size_t i = 0; i < whole.size(); ++i) {
    auto bytes = whole;
    bytes[i] ^= 0x10;
    spill(folder / "y", bytes);
    // Refused; or renamed a tensor, which Checkpoint::require_model sees; or hid the checksums of whole data.
    const auto message = complaint(folder / "y", bytes);
    if (message != "accepted") {
      EXPECT_EQ(message.find((folder / "y") + ":"), 0u) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      continue;
    }
    const SafetensorsFile file(folder / "y");
    for (const auto& info : kTensors) {
      EXPECT_TRUE(!file.has(info.name) || at::equal(file.read(info.name), content_of(info))) << "byte " << i;
    }
  }
}

TEST(Safetensors, notices_a_file_cut_short_or_grown) {
  const ScratchFolder folder;
  write(folder / "x");
  const auto whole = slurp(folder / "x");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(complaint(folder / "y", whole.substr(0, size)), "accepted") << size << " bytes";
  }
  EXPECT_NE(complaint(folder / "y", whole + "x").find("holds 73 bytes of data; expected 72"), std::string::npos);
}

TEST(Safetensors, says_in_one_line_what_is_wrong_with_a_file) {
  const ScratchFolder folder;
  const auto path = folder / "x";
  const auto says = [&](const std::string& header, int64_t data) { return complaint(path, file_of(header, data)); };
  EXPECT_EQ(refusal<InputError>([&] { SafetensorsFile file(path); }),
            path + ": No such file or directory; expected a safetensors file");
  EXPECT_EQ(complaint(path, "abc"), path + ": has 3 bytes; expected a header of at least 8");
  EXPECT_EQ(complaint(path, std::string(8, '\x7f')),
            path + ": says its header has 9187201950435737471 bytes, but the file has 8");
  EXPECT_NE(says("{]", 0).find("the header is damaged"), std::string::npos);
  EXPECT_NE(says("[1,2]", 0).find("the header is damaged"), std::string::npos);
  EXPECT_EQ(says(R"({"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2),
            path + ": tensor 'w' has type F8_E4M3; expected one of F32, F64, I64, BF16, F16, I32, U8");
  EXPECT_EQ(says(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}})", 20),
            path + ": tensor 'w' of shape [2, 3] has data at [0, 20]; expected 24 bytes");
  EXPECT_EQ(says(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
            path + ": data of tensor 'w' begins at 4; expected 0");
  EXPECT_NE(says(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0).find("tensor 'w'"),
            std::string::npos);
  EXPECT_NE(says(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}})", 0).find("tensor 'w'"),
            std::string::npos);
  write(path);
  EXPECT_EQ(refusal<InputError>([&] { SafetensorsFile(path).read("c"); }), path + ": holds no tensor 'c'");
}

TEST(Safetensors, keeps_the_old_file_until_the_new_one_is_whole) {
  const ScratchFolder folder;
  write(folder / "x");
  const auto before = slurp(folder / "x");
  {
    SafetensorsWriter writer(folder / "x", {{"w", {2}, at::kFloat}, {"v", {2}, at::kFloat}});
    writer.write(at::ones({2}, at::kFloat));
  }
  EXPECT_EQ(slurp(folder / "x"), before);
}

TEST(SafetensorsWriter, holds_its_caller_to_the_promise) {
  const ScratchFolder folder;
  const auto breaks = [&](const at::Tensor& tensor) {
    SafetensorsWriter writer(folder / "x", {{"w", {2, 3}, at::kFloat}});
    writer.write(tensor);
  };
  EXPECT_THROW(breaks(at::ones({3, 2}, at::kFloat)), ContractError);
  EXPECT_THROW(breaks(at::ones({2, 3}, at::kDouble)), ContractError);
  EXPECT_THROW(breaks(at::ones({3, 2}, at::kFloat).t()), ContractError);
  EXPECT_THROW(SafetensorsWriter(folder / "x", {{"w", {2}, at::kFloat}}).finish(), ContractError);
  EXPECT_THROW(SafetensorsWriter(folder / "x", {{"w", {2}, at::kHalf}}), ContractError);
  EXPECT_THROW(SafetensorsWriter(folder / "x", {{"w", {2}}, {"w", {2}}}), ContractError);
  EXPECT_THROW(SafetensorsWriter("no/such/folder/x", {}), InputError);
}

}  // namespace
}  // namespace plait
