// This fuzz target reads bytes as a replay capsule. from_json() must accept the bytes or name the
// error, and an accepted capsule must be read back unchanged after writing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "harness/contract/usage_error.h"
#include "suites/gate/fuzz/capsule.h"
#include "suites/gate/fuzz/targets/target.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fairdraw::suites::fuzz;
  try {
    const Capsule capsule = from_json(std::string_view(reinterpret_cast<const char*>(data), size));
    const std::string text = to_json(capsule);
    if (to_json(from_json(text)) != text) std::abort();
  } catch (const fairdraw::harness::UsageError&) {
    // Bad input.
  } catch (const std::length_error&) {
    // This capsule is valid, but becomes too long when it is written with spaces.
  }
  return 0;
}
