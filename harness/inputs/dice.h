// The random choices of the generators, from a seed; they are the same on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <vector>

namespace fairdraw::harness {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t bits() { return random_(); }
  /// Returns an integer in [0, bound). The bias of the modulo operation is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) { return bits() % bound; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// True with probability 1 / `times`.
  bool once_in(std::uint64_t times) { return below(times) == 0; }
  /// Returns a multiple of 2^-53 in [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Returns a sum of four uniform values (Irwin-Hall), scaled to variance 1: its density is
  /// bell-shaped, within +-3.5, and its bits are the same on every machine.
  double bell() { return (unit() + unit() + unit() + unit() - 2) * 1.7320508075688772; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  template <class T>
  const T& pick(std::span<const T> values) {
    return values[below(values.size())];
  }
  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace fairdraw::harness
