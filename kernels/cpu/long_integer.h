// Integers >= 0 of any length, with what the verification of siblings needs of them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "host_device.h"

namespace fairdraw::cpu {

class LongInteger {
 public:
  LongInteger() = default;
  explicit LongInteger(std::uint64_t value) { *this = value; }
  LongInteger& operator=(std::uint64_t value);  ///< keeps its memory, as all of these do

  void multiply(std::uint64_t factor);
  void add_product(const LongInteger& a, std::uint64_t factor);
  /// The product must not be larger than this.
  void subtract_product(const LongInteger& a, std::uint64_t factor);
  void shift_by_a_word();  ///< times 2^64

  int bits() const;  ///< 0 of 0
  /// floor(this / 2^shift), which must have 128 bits at most.
  uint128_t shifted(int shift) const;

  friend std::strong_ordering operator<=>(const LongInteger& a, const LongInteger& b);
  friend bool operator==(const LongInteger& a, const LongInteger& b) = default;

 private:
  void trim();

  std::vector<std::uint64_t> words_;  ///< lowest first; the last one is not 0
};

}  // namespace fairdraw::cpu
