// This fuzz target reads bytes as a .npy file of captured logits: load_npy() must accept the bytes
// or name the error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harness/contract/usage_error.h"
#include "harness/inputs/npy.h"
#include "suites/gate/fuzz/targets/target.h"

namespace {

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("fairdraw-npy", 0)) {
    if (descriptor_ < 0) std::abort();
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void hold(const std::uint8_t* data, std::size_t size) const {
    const bool written = ftruncate(descriptor_, 0) == 0 &&
                         pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size);
    if (!written) std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile file;
  file.hold(data, size);
  for (const bool bfloat16 : {false, true}) {
    try {
      const auto logits = fairdraw::harness::load_npy(file.path(), bfloat16);
      // All rows of accepted logits must be readable, from the first to the last.
      const bool whole =
          logits.row(0).size() == static_cast<std::size_t>(logits.vocab) &&
          logits.row(logits.rows - 1).size() == static_cast<std::size_t>(logits.vocab);
      if (!whole) std::abort();
    } catch (const fairdraw::harness::UsageError&) {
      // Bad input. No other exception may leave load_npy().
    }
  }
  return 0;
}
