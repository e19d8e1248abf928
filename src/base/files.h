// Files that are either whole or not there: written under a name aside, brought to the disk, then renamed.
// A refusal of the system (full disk, no permission) is an InputError with the path and the system's words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plait {

class DurableFile {
 public:
  // Opens `path`.tmp; an older one is replaced. What is never committed is removed. A link at `path` is replaced too,
  // never followed.
  explicit DurableFile(std::string path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(int64_t offset, std::string_view text);

  // To the disk, then under its name.
  void commit();

 private:
  std::string aside() const { return path_ + ".tmp"; }
  void ask_part();
  std::string path_;
  int handle_;
  int64_t written_ = 0, asked_ = 0;  // bytes; of these the disk was asked to take
};

// Brings the names in a folder to the disk.
void sync_folder(const std::string& folder);

// Renames a file or folder and brings the change of names to the disk.
void rename_durably(const std::string& from, const std::string& to);

// Throws as writing the file would, and writes nothing: for what is written at the end of something long.
void expect_writable(const std::string& path);

std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view text);

}  // namespace plait
