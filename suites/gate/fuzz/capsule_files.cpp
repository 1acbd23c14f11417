#include "suites/gate/fuzz/capsule_files.h"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

#include "harness/contract/usage_error.h"
#include "harness/inputs/regular_file.h"
#include "harness/run/calls/random_words.h"
#include "reports/pending_file.h"

namespace fairdraw::suites::fuzz {

using harness::UsageError;

bool is_capsule(const std::string& argument) { return argument.ends_with(".json"); }

Capsule load_capsule(const std::filesystem::path& path) {
  const std::string text = harness::read_regular_file(path, kMaxCapsuleBytes);
  try {
    return from_json(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::filesystem::path save_capsule(const std::filesystem::path& folder, const Capsule& capsule) {
  const std::string text = to_json(capsule);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path path =
      folder / fmt::format("{}-{:016x}.json", capsule.property, harness::seed_from_text(text));
  try {
    reports::PendingFile(path, text).put_in_place();
  } catch (const std::runtime_error& failure) {
    throw UsageError(failure.what());
  }
  return path;
}

}  // namespace fairdraw::suites::fuzz
