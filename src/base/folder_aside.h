// A folder that is gone with its contents unless it is kept: what is written in it is either whole or not there.
#pragma once
#include <filesystem>
#include <string>
#include <utility>

#include "base/files.h"

namespace plait {

class FolderAside {
 public:
  explicit FolderAside(std::string path) : path_(std::move(path)) { std::filesystem::create_directory(path_); }
  ~FolderAside() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const std::string& path() const { return path_; }
  void become(const std::string& name) { rename_durably(std::exchange(path_, ""), name); }

 private:
  std::string path_;
};

}  // namespace plait
