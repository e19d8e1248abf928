#include "launch/cgroups.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace plait::launch {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string line; std::getline(file, line);) all.push_back(line);
  return all;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::istringstream in(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

bool lists(const std::string& words, std::string_view word) {
  const std::vector<std::string> all = split(words, ',');
  return std::ranges::find(all, word) != all.end();
}

struct Mount {
  std::string part, at;  // the part of the hierarchy that is seen there, "/" for all of it
  bool unified;
};

// proc(5), mountinfo: number, parent, device, part, place, options, .. "-" type, source, options of the type.
std::vector<Mount> mounts(const std::string& root, std::string_view controller) {
  std::vector<Mount> all;
  for (const std::string& line : lines_of(root + "/proc/self/mountinfo")) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const bool unified = dash[1] == "cgroup2";
    if (unified || (dash[1] == "cgroup" && lists(dash[3], controller))) all.push_back({words[3], words[4], unified});
  }
  return all;
}

// cgroups(7): "4:memory:/job", and "0::/job" of v2.
std::string own_path(const std::string& root, std::string_view controller) {
  for (const std::string& line : lines_of(root + "/proc/self/cgroup")) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers == controller || lists(controllers, controller)) return line.substr(second + 1);
  }
  return "/";
}

// The process's path below the place of the mount; empty where it lies outside of what is seen there.
std::string below(const Mount& mount, std::string path) {
  if (mount.part != "/") path = path.starts_with(mount.part) ? path.substr(mount.part.size()) : "";
  return path == "/" || path.starts_with("/..") ? "" : path;
}

}  // namespace

std::vector<Cgroup> cgroups(const std::string& root, std::string_view controller) {
  std::vector<Cgroup> all;
  for (const Mount& mount : mounts(root, controller)) {
    std::string path = below(mount, own_path(root, mount.unified ? "" : controller));
    for (;; path.resize(path.rfind('/'))) {
      all.push_back({mount.at + path, mount.unified});
      if (path.find('/') == std::string::npos) break;
    }
  }
  return all;
}

}  // namespace plait::launch
