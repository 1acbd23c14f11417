#include "harness/plugin/sha256.h"

#include <fmt/format.h>

#include <bit>

namespace fairdraw::harness::plugin {
namespace {

using Wide = unsigned __int128;

// Returns the first 32 bits of the fraction of a root of `number`; these are the constants of the
// standard.
template <int kRoot>
constexpr std::uint32_t fraction_of_root(std::uint64_t number) {
  // The loop finds the largest integer x with x^n <= number 2^(32 n).
  constexpr int kFraction = 32;
  const Wide wanted = Wide{number} << (kFraction * kRoot);
  std::uint64_t root = 0;
  for (int bit = 36; bit >= 0; --bit) {  // because roots of primes below 2^9 are below 2^5
    const std::uint64_t larger = root | std::uint64_t{1} << bit;
    Wide power = 1;
    for (int i = 0; i < kRoot; ++i) power *= larger;
    if (power <= wanted) root = larger;
  }
  return static_cast<std::uint32_t>(root);
}

constexpr bool is_prime(std::uint64_t number) {
  for (std::uint64_t i = 2; i * i <= number; ++i) {
    if (number % i == 0) return false;
  }
  return true;
}

// Computes the constants of SHA-256 from the first primes.
template <int kRoot, std::size_t kCount>
constexpr std::array<std::uint32_t, kCount> fractions_of_roots() {
  std::array<std::uint32_t, kCount> fractions{};
  std::uint64_t prime = 1;
  for (std::uint32_t& fraction : fractions) {
    do ++prime;
    while (!is_prime(prime));
    fraction = fraction_of_root<kRoot>(prime);
  }
  return fractions;
}

constexpr std::array<std::uint32_t, 64> kRounds = fractions_of_roots<3, 64>();

// These are the functions of section 4.1.2 of the standard.
constexpr std::uint32_t sum0(std::uint32_t x) {
  return std::rotr(x, 2) ^ std::rotr(x, 13) ^ std::rotr(x, 22);
}
constexpr std::uint32_t sum1(std::uint32_t x) {
  return std::rotr(x, 6) ^ std::rotr(x, 11) ^ std::rotr(x, 25);
}
constexpr std::uint32_t sigma0(std::uint32_t x) {
  return std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3;
}
constexpr std::uint32_t sigma1(std::uint32_t x) {
  return std::rotr(x, 17) ^ std::rotr(x, 19) ^ x >> 10;
}

}  // namespace

constexpr std::array<std::uint32_t, 8> Sha256::kStart = fractions_of_roots<2, 8>();

void Sha256::take_block() {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < kBlock; ++i) words[i / 4] = words[i / 4] << 8 | block_[i];
  for (std::size_t i = 16; i < words.size(); ++i) {
    words[i] = sigma1(words[i - 2]) + words[i - 7] + sigma0(words[i - 15]) + words[i - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t first = h + sum1(e) + ((e & f) ^ (~e & g)) + kRounds[i] + words[i];
    const std::uint32_t second = sum0(a) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> ended = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < ended.size(); ++i) state_[i] += ended[i];
}

void Sha256::add(std::span<const unsigned char> bytes) {
  for (const unsigned char byte : bytes) {
    block_[bytes_++ % kBlock] = byte;
    if (bytes_ % kBlock == 0) take_block();
  }
}

std::string Sha256::digits() {
  const std::uint64_t bits = 8 * bytes_;
  constexpr std::size_t kLength = 8;  // number of bytes of the length, at the end of the last block
  add(std::array<unsigned char, 1>{0x80});
  while (bytes_ % kBlock != kBlock - kLength) add(std::array<unsigned char, 1>{0});
  for (int shift = 56; shift >= 0; shift -= 8) {
    add(std::array{static_cast<unsigned char>(bits >> shift)});
  }
  std::string digits;
  for (const std::uint32_t word : state_) digits += fmt::format("{:08x}", word);
  return digits;
}

}  // namespace fairdraw::harness::plugin
