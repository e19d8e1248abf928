#include "launch/limits.h"

#include <sched.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/errors.h"
#include "launch/cgroups.h"

namespace plait::launch {
namespace {

constexpr int64_t kOnlyWhatThereIs = 2;           // of overcommit_memory: what is promised counts as taken
constexpr int64_t kUnlimited = int64_t{1} << 60;  // what v1 says for "none" is more

// The words of a small file; none where it cannot be read.
std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> all;
  for (std::string word; file >> word;) all.push_back(word);
  return all;
}

std::optional<int64_t> number(const std::string& word) {
  int64_t value = 0;
  std::istringstream in(word);
  if (!(in >> value) || value < 0 || value > kUnlimited) return std::nullopt;
  return value;
}

// Word `place` of a file, where it is a number; "max", "unlimited" and -1 are none.
std::optional<int64_t> number_in(const std::string& path, size_t place = 0) {
  const std::vector<std::string> words = words_of(path);
  return place < words.size() ? number(words[place]) : std::nullopt;
}

// What stands behind "Name:" or "name " at the beginning of a line of the file; empty where there is no such line.
std::string field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const size_t begin = line.find_first_not_of(": \t", name.size());
    if (begin != name.size() && begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

std::optional<int64_t> number_of(const std::string& path, const std::string& name) { return number(field(path, name)); }

int64_t kilobytes(const std::string& root, const char* name) {
  return 1024 * number_of(root + "/proc/meminfo", name).value_or(0);
}

// "0-3,8": 0, 1, 2, 3, 8.
std::vector<int> list_of(const std::string& text) {
  std::vector<int> all;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int core = first; core <= last; ++core) all.push_back(core);
  }
  return all;
}

std::vector<int> affinity_of(const std::string& root, const std::string& process) {
  return list_of(field(root + "/proc/" + process + "/status", "Cpus_allowed_list"));
}

// Where /proc does not tell it.
std::vector<int> own_affinity() {
  cpu_set_t set;
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) all.push_back(core);
  return all;
}

// The least time of processors that a control group of this process has.
void fill_quota(Processors& found, const std::string& root) {
  for (const Cgroup& group : cgroups(root, "cpu")) {
    const std::string by = group.folder + (group.unified ? "/cpu.max" : "/cpu.cfs_quota_us");
    const auto quota = number_in(root + by);
    const auto period = group.unified ? number_in(root + by, 1) : number_in(root + group.folder + "/cpu.cfs_period_us");
    if (!quota || !period || *period == 0) continue;
    const double share = static_cast<double>(*quota) / static_cast<double>(*period);
    if (share < found.quota) found.quota = share, found.quota_by = by;
  }
}

}  // namespace

int Processors::usable() const {
  return static_cast<int>(std::max(1.0, std::floor(std::min(quota, static_cast<double>(allowed.size())))));
}

Processors processors(const std::string& root) {
  Processors found{.allowed = affinity_of(root, "self")};
  if (found.allowed.empty()) found.allowed = own_affinity();
  std::ifstream online(root + "/sys/devices/system/cpu/online");
  std::string list;
  if (online >> list) found.online = list_of(list);
  if (found.online.size() < found.allowed.size()) found.online = found.allowed;
  fill_quota(found, root);
  return found;
}

Processors processors_of_launcher(const std::string& root) {
  Processors found = processors(root);
  std::set<int> all(found.allowed.begin(), found.allowed.end());
  for (const int core : affinity_of(root, field(root + "/proc/self/status", "PPid"))) all.insert(core);
  found.allowed.assign(all.begin(), all.end());
  return found;
}

namespace {

bool is_number(const std::string& name) { return name.find_first_not_of("0123456789") == std::string::npos; }

// Threads of all processes of a user.
int64_t threads_of_user(const std::string& root, const std::string& user) {
  int64_t all = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/proc", gone)) {
    if (!is_number(entry.path().filename().string())) continue;
    const std::string status = entry.path().string() + "/status";
    if (field(status, "Uid").starts_with(user)) all += number_of(status, "Threads").value_or(0);
  }
  return all;
}

int64_t threads_of_machine(const std::string& root) {
  const std::vector<std::string> load = words_of(root + "/proc/loadavg");  // "0.5 0.4 0.3 2/94 28394"
  return load.size() < 4 ? 0 : number(load[3].substr(load[3].find('/') + 1)).value_or(0);
}

// The system lets root, and who may change limits, start more.
bool is_above_limits(const std::string& root) {
  const std::string status = root + "/proc/self/status";
  constexpr uint64_t kAdmin = uint64_t{1} << 21, kResource = uint64_t{1} << 24;
  const std::string capabilities = field(status, "CapEff");
  const uint64_t may = capabilities.empty() ? 0 : std::stoull(capabilities, nullptr, 16);
  return field(status, "Uid").starts_with("0\t") || (may & (kAdmin | kResource)) != 0;
}

void add_user_limit(std::vector<Limit>& all, int64_t wanted, const std::string& root) {
  const std::string file = "/proc/self/limits";
  const auto most = number_of(root + file, "Max processes");
  if (!most || is_above_limits(root)) return;
  const std::string user = field(root + "/proc/self/status", "Uid");
  Limit limit{file + ": Max processes, of the user", *most, threads_of_machine(root)};
  if (limit.left() < wanted) limit.taken = threads_of_user(root, user.substr(0, user.find('\t') + 1));
  all.push_back(limit);
}

// A thread has a stack and a page that guards it: two mappings.
void add_mappings(std::vector<Limit>& all, int64_t wanted, const std::string& root) {
  const std::string file = "/proc/sys/vm/max_map_count";
  const auto most = number_in(root + file);
  if (!most) return;
  Limit limit{file + ", two for a thread", *most / 2, 0, Limit::Of::process};
  if (limit.left() / 2 < wanted) {
    std::ifstream maps(root + "/proc/self/maps");
    limit.taken = std::count(std::istreambuf_iterator<char>(maps), {}, '\n') / 2;
  }
  all.push_back(limit);
}

// Bytes that this process may map: addresses, and memory of its own.
std::vector<Limit> mapped_bytes(const std::string& root) {
  const std::string limits = "/proc/self/limits", status = root + "/proc/self/status";
  std::vector<Limit> all;
  for (const auto& [name, use] : {std::pair("Max address space", "VmSize"), std::pair("Max data size", "VmData")})
    if (const auto most = number_of(root + limits, name))
      all.push_back(
          {fmt::format("{}: {}", limits, name), *most, 1024 * number_of(status, use).value_or(0), Limit::Of::process});
  return all;
}

void add_stacks(std::vector<Limit>& all, const std::string& root) {
  constexpr int64_t kUsual = int64_t{2} << 20;  // where there is no limit of stacks
  const int64_t stack = std::max<int64_t>(1, number_of(root + "/proc/self/limits", "Max stack size").value_or(kUsual));
  for (Limit limit : mapped_bytes(root)) {
    limit.most /= stack;
    limit.taken /= stack;
    limit.by += fmt::format(", in stacks of {} KiB", stack / 1024);
    all.push_back(std::move(limit));
  }
}

}  // namespace

std::vector<Limit> thread_limits(int64_t wanted, const std::string& root) {
  std::vector<Limit> all;
  for (const char* file : {"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max"})
    if (const auto most = number_in(root + file)) all.push_back({file, *most, threads_of_machine(root)});
  for (const Cgroup& group : cgroups(root, "pids")) {
    const std::string by = group.folder + "/pids.max";
    if (const auto most = number_in(root + by))
      all.push_back({by, *most, number_in(root + group.folder + "/pids.current").value_or(0)});
  }
  add_user_limit(all, wanted, root);
  add_mappings(all, wanted, root);
  add_stacks(all, root);
  return all;
}

namespace {

// Files that lie in a group's memory and can be read again.
int64_t kept_files(const std::string& root, const Cgroup& group) {
  const std::string stat = root + group.folder + "/memory.stat", before = group.unified ? "" : "total_";
  return number_of(stat, before + "inactive_file").value_or(0) + number_of(stat, before + "active_file").value_or(0);
}

std::optional<Limit> memory_of(const std::string& root, const Cgroup& group) {
  const std::string by = group.folder + (group.unified ? "/memory.max" : "/memory.limit_in_bytes");
  const auto most = number_in(root + by);
  if (!most) return std::nullopt;
  const char* current = group.unified ? "/memory.current" : "/memory.usage_in_bytes";
  const int64_t used = number_in(root + group.folder + current).value_or(0);
  return Limit{by, *most, std::max<int64_t>(0, used - kept_files(root, group))};
}

std::optional<Limit> memory_of_machine(const std::string& root) {
  const int64_t most = kilobytes(root, "MemTotal") + kilobytes(root, "SwapTotal");
  if (most == 0) return std::nullopt;
  return Limit{"/proc/meminfo", most, most - kilobytes(root, "MemAvailable") - kilobytes(root, "SwapFree")};
}

}  // namespace

std::vector<Limit> memory_limits(const std::string& root) {
  std::vector<Limit> all;
  if (const auto machine = memory_of_machine(root)) all.push_back(*machine);
  for (const Cgroup& group : cgroups(root, "memory"))
    if (const auto limit = memory_of(root, group)) all.push_back(*limit);
  if (number_in(root + "/proc/sys/vm/overcommit_memory") == kOnlyWhatThereIs)
    all.push_back({"/proc/meminfo: CommitLimit", kilobytes(root, "CommitLimit"), kilobytes(root, "Committed_AS")});
  for (Limit& limit : mapped_bytes(root)) all.push_back(std::move(limit));
  return all;
}

void expect_threads(const RankOptions& options, RanksHere here, const std::string& root) {
  const int64_t each = int64_t{options.threads} + options.lanes;
  for (const Limit& limit : thread_limits(each * std::max(here.of_node, here.of_process), root)) {
    const int64_t ranks = ranks_under(limit, here);
    if (each * ranks <= limit.left()) continue;
    input_error(
        "{} rank{} here of {} thread{}{} {} {} threads, but {} more can be started: {} are allowed by {}, {} are "
        "taken; lower mesh.threads or the number of ranks, or raise that limit",
        ranks, ranks == 1 ? "" : "s", options.threads, options.threads == 1 ? "" : "s",
        options.lanes ? fmt::format(" and {} that send", options.lanes) : "", ranks == 1 ? "needs" : "need",
        each * ranks, limit.left(), limit.most, limit.by, limit.taken);
  }
}

}  // namespace plait::launch
