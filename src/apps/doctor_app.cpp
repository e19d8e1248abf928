// `plait doctor`: a few seconds of measuring: multiply-adds in registers, matrix products, memory; then what to mend.
#include <ATen/Context.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <fstream>

#include "apps/apps.h"
#include "apps/command_line.h"
#include "base/table.h"
#include "base/units.h"
#include "bench/machine_speed.h"
#include "launch/limits.h"
#include "wire/mpi/run.h"

namespace plait {
namespace {

#ifdef NDEBUG
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif

constexpr int64_t kProduct = 1536;            // rows, inner and columns of the measured product
constexpr int64_t kTriad = int64_t{1} << 24;  // doubles per array: 128 MiB, beyond any cache

double product_flops(int threads) {
  at::set_num_threads(threads);
  const at::Tensor a = at::rand({kProduct, kProduct}), b = at::rand({kProduct, kProduct});
  at::Tensor c = at::empty({kProduct, kProduct});
  return 2.0 * kProduct * kProduct * kProduct / fastest([&] { at::mm_out(c, a, b); });
}

// Bytes per second of a = b + s * c, counting two reads and one write.
double triad_bandwidth(int threads) {
  std::vector<double> a(kTriad), b(kTriad, 1), c(kTriad, 2);
  const double seconds = fastest([&] {
    on_threads(threads, [&](int t) {
      const int64_t begin = kTriad * t / threads, end = kTriad * (t + 1) / threads;
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0 * c[i];
    });
  });
  return 3.0 * sizeof(double) * kTriad / seconds;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

constexpr int64_t kEvery = int64_t{1} << 40;  // threads: more than any limit leaves

struct Machine {
  launch::Processors processors = launch::processors();
  int cores = processors.usable();
  std::vector<launch::Limit> memory = launch::memory_limits(), more_threads = launch::thread_limits(kEvery);
  std::string huge_pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  double load = std::atof(first_line("/proc/loadavg").c_str());
  bool mkl = at::hasMKL();
  int threads = at::get_num_threads();  // that LibTorch would start
  double register_one, register_all, product_one, product_all, bandwidth_one, bandwidth_all;
};

void measure(Machine& m) {
  m.register_one = register_flops(1);
  m.register_all = register_flops(m.cores);
  m.product_one = product_flops(1);
  m.product_all = product_flops(m.cores);
  m.bandwidth_one = triad_bandwidth(1);
  m.bandwidth_all = triad_bandwidth(m.cores);
}

std::string width() {
  if (__builtin_cpu_supports("avx512f")) return "AVX-512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "AVX2";
  return "no AVX2";
}

std::string flops(double per_second) { return human_count(per_second) + "F/s"; }

// The one that leaves least; null where there is none.
const launch::Limit* tightest(const std::vector<launch::Limit>& limits) {
  const auto least = std::ranges::min_element(limits, {}, &launch::Limit::left);
  return least == limits.end() ? nullptr : &*least;
}

std::string report(const Machine& m) {
  Table parts({"part", "here"});
  parts.row({"cores", fmt::format("{} of {} online, {}", m.cores, m.processors.online.size(), width())});
  if (const launch::Limit* least = tightest(m.memory))
    parts.row({"memory", fmt::format("{} left of {} ({})", human_bytes(static_cast<double>(least->left())),
                                     human_bytes(static_cast<double>(least->most)), least->by)});
  if (const launch::Limit* least = tightest(m.more_threads))
    parts.row({"threads", fmt::format("{} more can be started ({})", least->left(), least->by)});
  parts.row({"huge pages", m.huge_pages.empty() ? "unknown" : m.huge_pages});
  parts.row({"LibTorch", fmt::format("{}, {} MKL, {} threads", TORCH_VERSION, m.mkl ? "with" : "without", m.threads)});
  parts.row({"MPI", wire::mpi_library()});
  Table speeds({"speed", "1 thread", fmt::format("{} threads", m.cores), "gain"});
  const auto gain = [](double one, double all) { return fmt::format("{:.2f}x", all / one); };
  speeds.row({"multiply-adds in registers, float32", flops(m.register_one), flops(m.register_all),
              gain(m.register_one, m.register_all)});
  speeds.row({fmt::format("matrix product {}^3, float32", kProduct), flops(m.product_one), flops(m.product_all),
              gain(m.product_one, m.product_all)});
  speeds.row({"of the multiply-adds", percent(m.product_one / m.register_one, 0),
              percent(m.product_all / m.register_all, 0), ""});
  speeds.row({"memory, a = b + s * c", human_bytes(m.bandwidth_one) + "/s", human_bytes(m.bandwidth_all) + "/s",
              gain(m.bandwidth_one, m.bandwidth_all)});
  return parts.str() + "\n" + speeds.str();
}

std::vector<std::string> complaints(const Machine& m) {
  std::vector<std::string> found;
  const auto when = [&](bool holds, std::string text) {
    if (holds) found.push_back(std::move(text));
  };
  when(!kOptimised, "this binary is a debug build: use the release preset");
  const size_t allowed = m.processors.allowed.size(), online = m.processors.online.size();
  when(allowed < online,
       fmt::format("this process may run on {} of {} cores: its affinity is narrowed", allowed, online));
  when(m.processors.quota < static_cast<double>(allowed),
       fmt::format("a quota pays the time of {:.2f} cores ({}): threads beyond it wait", m.processors.quota,
                   m.processors.quota_by));
  when(m.load > m.cores + 0.5,
       fmt::format("load {:.1f} on {} cores: something else runs, the speeds above are too low", m.load, m.cores));
  when(width() == "no AVX2", "no AVX2: arithmetic runs at a quarter of what this program expects");
  when(!m.mkl, "LibTorch has no MKL: its matrix products may be slower");
  when(m.huge_pages.find("[never]") != std::string::npos,
       "transparent huge pages are off: fresh memory is slow; set them to madvise or always");
  when(m.product_one < 0.6 * m.register_one, "matrix products reach less than 60% of the multiply-adds");
  when(m.cores > 1 && m.register_all < 0.75 * m.cores * m.register_one,
       "all cores together are slower than their number: shared cores, heat or other work");
  return found;
}

}  // namespace

int doctor_app(Arguments arguments) {
  CommandLine line("doctor", "Measures this machine for a few seconds and says what makes it slow");
  if (!line.parse(arguments)) return 0;
  Machine machine;
  measure(machine);
  fmt::print("{}\n", report(machine));
  const std::vector<std::string> found = complaints(machine);
  for (const std::string& complaint : found) fmt::print("slow: {}\n", complaint);
  if (found.empty()) fmt::print("nothing here makes it slow\n");
  return 0;
}

}  // namespace plait
