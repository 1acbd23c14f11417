// Computes random words as a pure function of a key and an index, and values made of these words.
#pragma once

#include <bit>
#include <cstdint>

namespace fairdraw::harness {

/// The increment of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014), which is an odd number near 2^64 divided by the golden ratio.
inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;

/// Returns the output of SplitMix64 for a state; this is a bijection on 64-bit words (Stafford's
/// variant 13).
constexpr std::uint64_t mix(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

/// The stream of random words that SplitMix64 gives from the state `key`; any word can be computed
/// by its index.
class CounterRandom {
 public:
  explicit constexpr CounterRandom(std::uint64_t key) : key_(key) {}

  /// Returns the stream of a family, a seed and a row; each combination has a stream of its own.
  static constexpr CounterRandom of(std::uint64_t family, std::uint64_t seed, std::uint64_t row) {
    return CounterRandom(mix(mix(mix(family + kGoldenRatio) ^ seed) + row * kGoldenRatio + 1));
  }

  /// Returns another stream of the same row, for example to order the ids.
  constexpr CounterRandom substream(std::uint64_t number) const {
    return CounterRandom(mix(key_ ^ mix(number + kGoldenRatio)));
  }

  /// Returns 64 uniform bits.
  constexpr std::uint64_t word(std::uint64_t index) const {
    return mix(key_ + (index + 1) * kGoldenRatio);
  }

  /// Returns an integer in [0, bound), uniform up to a bias of bound / 2^64. Precondition: bound in
  /// [1, 2^32].
  constexpr std::uint64_t below(std::uint64_t bound, std::uint64_t index) const {
    return ((word(index) >> 32) * bound) >> 32;
  }

 private:
  std::uint64_t key_;
};

/// Returns (k + 1/2) 2^-52, where k is the top 52 bits of `word`. The result is strictly between 0
/// and 1, symmetric about 1/2, and exact (53 significant bits), and 1 minus the result is exact,
/// too.
inline double open_uniform(std::uint64_t word) {
  const double in_1_2 = std::bit_cast<double>((word >> 12) | 0x3ff0000000000000);
  return in_1_2 - 0x1.fffffffffffffp-1;  // 1 - 2^-53
}

/// A pseudorandom order of 0 .. size - 1, computed one element at a time: rounds of invertible
/// mixing on the next power of two are repeated until the result is below `size` (cycle walking,
/// fewer than two steps on average).
class Permutation {
 public:
  /// Makes an order of `size` elements; `size` is from 1 to 2^31.
  Permutation(const CounterRandom& random, std::uint64_t size)
      : size_(size),
        bits_(static_cast<int>(std::bit_width(size - 1))),
        mask_((std::uint64_t{1} << bits_) - 1) {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      multiplier_[round] = random.word(2 * round) | 1;
      increment_[round] = random.word(2 * round + 1);
    }
  }

  std::uint64_t operator()(std::uint64_t index) const {
    do {
      // Each of these steps is a bijection: odd multiplication, addition, and xor with the upper
      // half.
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        index = (index * multiplier_[round] + increment_[round]) & mask_;
        index ^= index >> ((bits_ + 1) / 2);
      }
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr std::uint64_t kRounds = 4;
  std::uint64_t size_;
  int bits_;
  std::uint64_t mask_;
  std::uint64_t multiplier_[kRounds] = {};
  std::uint64_t increment_[kRounds] = {};
};

}  // namespace fairdraw::harness
