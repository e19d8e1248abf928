#include "base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/errors.h"

namespace plait {
namespace {

[[noreturn]] void refuse(std::string_view act, const std::string& path) {
  input_error("cannot {} '{}': {}", act, path, std::strerror(errno));
}

// Parts of a file that the disk is asked to take while the next one is written, so that little is left for the end.
constexpr int64_t kPart = 32 << 20;

int open_or_refuse(const std::string& path, int flags) {
  const int handle = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (handle < 0) refuse("open", path);
  return handle;
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

DurableFile::DurableFile(std::string path) : path_(std::move(path)), handle_(-1) {
  std::remove(aside().c_str());  // a link there is not followed
  handle_ = open_or_refuse(aside(), O_WRONLY | O_CREAT | O_EXCL);
}

DurableFile::~DurableFile() {
  if (handle_ < 0) return;
  ::close(handle_);
  std::remove(aside().c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(handle_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", aside());
    bytes = bytes.subspan(written);
    written_ += written;
    while (written_ - asked_ >= kPart) ask_part();
  }
}

// Begins to bring a part to the disk, and waits for the one before it. Where a file system cannot, commit does it all.
void DurableFile::ask_part() {
  if (asked_ > 0)
    ::sync_file_range(handle_, asked_ - kPart, kPart,
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  ::sync_file_range(handle_, asked_, kPart, SYNC_FILE_RANGE_WRITE);
  asked_ += kPart;
}

void DurableFile::write_at(int64_t offset, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::pwrite(handle_, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse("write", aside());
    text.remove_prefix(written);
    offset += written;
  }
}

void DurableFile::commit() {
  if (::fsync(handle_) != 0) refuse("bring to the disk", aside());
  ::close(handle_);
  handle_ = -1;
  rename_durably(aside(), path_);
}

void sync_folder(const std::string& folder) {
  const int handle = open_or_refuse(folder, O_RDONLY | O_DIRECTORY);
  const int result = ::fsync(handle);
  ::close(handle);
  if (result != 0) refuse("bring to the disk", folder);
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) refuse("rename to", to);
  sync_folder(folder_of(to));
}

void expect_writable(const std::string& path) { const DurableFile never_committed(path); }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse("read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const std::string& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace plait
