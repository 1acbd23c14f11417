#include "harness/run/calls/random_words.h"

#include <Random123/philox.h>

namespace fairdraw::harness {
namespace {

// Applies the final mixing function of SplitMix64 to a value (Steele, Lea, Flood 2014).
std::uint64_t finish(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

std::uint64_t random_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                          std::uint32_t index, std::uint32_t sibling) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  const r123::Philox4x32 generator;
  const r123::Philox4x32::ctr_type counter = {
      {low(offset), high(offset), static_cast<std::uint32_t>(purpose) + 256 * sibling, index}};
  const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
  const r123::Philox4x32::ctr_type out = generator(counter, key);
  return std::uint64_t{out[0]} | (std::uint64_t{out[1]} << 32);
}

std::uint64_t seed_from_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return finish(hash);
}

std::uint64_t case_seed(std::uint64_t run_seed, std::string_view case_id) {
  return finish(seed_from_text(case_id) ^ finish(run_seed + 0x9e3779b97f4a7c15ULL));
}

std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  return finish(seed + (index + 1) * 0x9e3779b97f4a7c15ULL);
}

}  // namespace fairdraw::harness
