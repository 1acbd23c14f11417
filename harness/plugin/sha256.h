// Computes SHA-256 (FIPS 180-4), to identify the files that a run has judged.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fairdraw::harness::plugin {

/// The hash of bytes that are added in pieces.
class Sha256 {
 public:
  void add(std::span<const unsigned char> bytes);
  /// Returns 64 hexadecimal digits. Precondition of add(): digits() has not been called.
  std::string digits();

 private:
  static constexpr std::size_t kBlock = 64;
  void take_block();

  std::array<std::uint32_t, 8> state_ = kStart;
  std::array<unsigned char, kBlock> block_{};
  std::uint64_t bytes_ = 0;

  static const std::array<std::uint32_t, 8> kStart;
};

}  // namespace fairdraw::harness::plugin
