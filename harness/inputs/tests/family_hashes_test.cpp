// Compares the bits of every family with stored hashes. If a generator changes a bit, all stored
// seeds and all past failures change their meaning. This test is built several times, with
// different compiler options.
//
// The hashes only cover two rows for each of these vocabulary sizes.

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/inputs/families.h"

namespace fairdraw::harness {
namespace {

/// The sizes are near the block size of the Gaussian loop, near a power of two, and those of
/// models.
constexpr std::size_t kVocabs[] = {1, 2, 7, 64, 257, 32000, 128256};

struct StoredHashes {
  const char* family;
  std::uint64_t hashes[std::size(kVocabs)];
};

// The test of a new family fails and prints the line to paste here.
constexpr StoredHashes kStored[] = {
#include "harness/inputs/tests/family_hashes.inc"
};

/// Returns the FNV-1a hash (64 bits) of the little-endian bytes of rows 0 and 1 of seed 7.
std::uint64_t hash_of(Family family, std::size_t vocab) {
  std::uint64_t hash = 0xcbf29ce484222325;
  std::vector<float> row(vocab);
  for (std::uint64_t row_number = 0; row_number < 2; ++row_number) {
    generate_row(family, 7, row_number, row);
    for (const float value : row) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      for (int shift = 0; shift < 32; shift += 8) {
        hash = (hash ^ ((bits >> shift) & 0xff)) * 0x100000001b3;
      }
    }
  }
  return hash;
}

TEST(FAMILY_HASHES_SUITE, are_those_of_the_stored_table) {
#ifdef FAMILY_HASHES_CPU
  if (!__builtin_cpu_supports(FAMILY_HASHES_CPU)) {
    GTEST_SKIP() << "this CPU lacks " FAMILY_HASHES_CPU;
  }
#endif
  ASSERT_EQ(std::size(kStored), all_families().size());
  for (std::size_t i = 0; i < std::size(kStored); ++i) {
    const Family family = all_families()[i];
    EXPECT_STREQ(kStored[i].family, to_string(family));
    std::string row = std::string("{\"") + to_string(family) + "\",\n {";
    bool equal = true;
    for (std::size_t v = 0; v < std::size(kVocabs); ++v) {
      const std::uint64_t hash = hash_of(family, kVocabs[v]);
      equal = equal && hash == kStored[i].hashes[v];
      char text[24];
      std::snprintf(text, sizeof(text), "0x%016llx", static_cast<unsigned long long>(hash));
      row += (v == 0 ? "" : v % 4 == 0 ? ",\n  " : ", ") + std::string(text);
    }
    EXPECT_TRUE(equal) << "the generator now gives\n" << row << "}},";
  }
}

}  // namespace
}  // namespace fairdraw::harness
