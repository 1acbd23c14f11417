#include "suites/benchmarks/cuda_machine.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "harness/contract/usage_error.h"
#include "suites/benchmarks/cuda_timing.h"

namespace fairdraw::suites {
namespace {

/// Returns the first line that a command prints, or an empty string.
std::string first_line_of(const char* command) {
  const auto close = [](std::FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command, "r"), close);
  std::array<char, 256> buffer{};
  if (!pipe || std::fgets(buffer.data(), buffer.size(), pipe.get()) == nullptr) return {};
  std::string line = buffer.data();
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return line;
}

}  // namespace

cudaDeviceProp device_properties() {
  int device = 0;
  cudaDeviceProp properties{};
  expect_success(cudaGetDevice(&device), "the current device");
  expect_success(cudaGetDeviceProperties(&properties, device), "properties of the device");
  return properties;
}

std::string machine_text(const cudaDeviceProp& properties) {
  std::string driver =
      first_line_of("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null");
  if (driver.empty()) driver = "unknown";
  // If there is no repository, run_on_gpu passes the commit in this variable.
  const char* const given = std::getenv("FAIRDRAW_COMMIT");
  std::string commit = given != nullptr ? given : "";
  if (commit.empty()) commit = first_line_of("git rev-parse --short=12 HEAD 2>/dev/null");
  if (commit.empty()) commit = "unknown";
  return fmt::format("{}, driver {}, commit {}, {:%Y-%m-%d}", properties.name, driver, commit,
                     fmt::gmtime(std::chrono::system_clock::now()));
}

cuda::Path path_of(const std::string& backend) {
  if (backend == "cuda:cluster") return cuda::Path::cluster;
  return backend == "cuda:block" ? cuda::Path::block : cuda::Path::best;
}

void expect_available(const std::vector<std::string>& backends) {
  for (const std::string& backend : backends) {
    if (cuda::is_available(path_of(backend))) continue;
    throw harness::UsageError(fmt::format("backend '{}' cannot run here: {}", backend,
                                          cuda::why_not_available(path_of(backend))));
  }
}

}  // namespace fairdraw::suites
