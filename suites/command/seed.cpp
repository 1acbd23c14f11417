#include "suites/command/seed.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::cli {

std::string current_commit() {
  const auto close = [](std::FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(
      popen("git rev-parse --verify HEAD 2>/dev/null", "r"), close);
  if (!pipe) return {};
  std::array<char, 128> buffer{};
  if (std::fgets(buffer.data(), buffer.size(), pipe.get()) == nullptr) return {};
  std::string commit = buffer.data();
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  const bool is_hash =
      commit.size() >= 40 && commit.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_hash ? commit : std::string();
}

std::uint64_t parse_uint64(const std::string& field, const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const std::uint64_t value = std::strtoull(text.c_str(), &end, hexadecimal ? 16 : 10);
  const bool starts_well = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!starts_well || *end != '\0' || errno != 0) {
    throw harness::UsageError(fmt::format(
        "{}: '{}' is not a number from 0 to 2^64 - 1 (decimal, or 0x...)", field, text));
  }
  return value;
}

SeedChoice choose_seed(const std::optional<std::string>& seed,
                       const std::optional<std::string>& seed_from) {
  if (seed && seed_from) {
    throw harness::UsageError("--seed and --seed-from: give one of them, not both");
  }
  if (seed) {
    const std::uint64_t value = parse_uint64("--seed", *seed);
    return {value, fmt::format("--seed {}", value)};
  }
  if (seed_from) return {harness::seed_from_text(*seed_from), "--seed-from " + *seed_from};
  if (const std::string commit = current_commit(); !commit.empty()) {
    return {harness::seed_from_text(commit), "commit " + commit};
  }
  return {harness::seed_from_text(FAIRDRAW_VERSION), "version " FAIRDRAW_VERSION};
}

}  // namespace fairdraw::cli
