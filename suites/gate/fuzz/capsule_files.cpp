#include "suites/gate/fuzz/capsule_files.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::suites::fuzz {

using harness::UsageError;

bool is_capsule(const std::string& argument) { return argument.ends_with(".json"); }

Capsule load_capsule(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxCapsuleBytes + 1, '\0');
  if (!file) throw UsageError(fmt::format("cannot read '{}'", path.string()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw UsageError(fmt::format("cannot read '{}'", path.string()));
  text.resize(static_cast<std::size_t>(file.gcount()));
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
  const std::filesystem::path part = path.string() + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
      throw UsageError(fmt::format("cannot write '{}'", part.string()));
    }
  }
  std::filesystem::rename(part, path, error);
  if (error) {
    throw UsageError(fmt::format("cannot write '{}': {}", path.string(), error.message()));
  }
  return path;
}

}  // namespace fairdraw::suites::fuzz
