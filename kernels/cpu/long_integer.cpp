#include "long_integer.h"

#include <algorithm>
#include <bit>

namespace fairdraw::cpu {
namespace {

std::uint64_t low(uint128_t value) { return static_cast<std::uint64_t>(value); }
std::uint64_t high(uint128_t value) { return static_cast<std::uint64_t>(value >> 64); }

}  // namespace

LongInteger& LongInteger::operator=(std::uint64_t value) {
  words_.clear();
  if (value != 0) words_.push_back(value);
  return *this;
}

void LongInteger::multiply(std::uint64_t factor) {
  std::uint64_t carry = 0;
  for (std::uint64_t& word : words_) {
    const uint128_t product = static_cast<uint128_t>(word) * factor + carry;
    word = low(product);
    carry = high(product);
  }
  words_.push_back(carry);
  trim();
}

void LongInteger::add_product(const LongInteger& a, std::uint64_t factor) {
  words_.resize(std::max(words_.size(), a.words_.size() + 1) + 1);
  std::uint64_t carry = 0;  // a product and two words fit into 128 bits
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t word = i < a.words_.size() ? a.words_[i] : 0;
    const uint128_t product = static_cast<uint128_t>(word) * factor + words_[i] + carry;
    words_[i] = low(product);
    carry = high(product);
  }
  trim();
}

void LongInteger::subtract_product(const LongInteger& a, std::uint64_t factor) {
  std::uint64_t carry = 0;  // of the product, and what was borrowed
  for (std::size_t i = 0; i < words_.size(); ++i) {
    const std::uint64_t word = i < a.words_.size() ? a.words_[i] : 0;
    const uint128_t product = static_cast<uint128_t>(word) * factor + carry;
    carry = high(product) + (words_[i] < low(product) ? 1 : 0);
    words_[i] -= low(product);
  }
  trim();
}

void LongInteger::shift_by_a_word() {
  if (!words_.empty()) words_.insert(words_.begin(), 0);
}

int LongInteger::bits() const {
  if (words_.empty()) return 0;
  return static_cast<int>(words_.size()) * 64 - std::countl_zero(words_.back());
}

uint128_t LongInteger::shifted(int shift) const {
  const auto first = static_cast<std::size_t>(shift / 64);
  const int rest = shift % 64;
  const auto word = [this](std::size_t i) { return i < words_.size() ? words_[i] : 0; };
  const uint128_t value = static_cast<uint128_t>(word(first + 1)) << 64 | word(first);
  if (rest == 0) return value;
  return value >> rest | static_cast<uint128_t>(word(first + 2)) << (128 - rest);
}

std::strong_ordering operator<=>(const LongInteger& a, const LongInteger& b) {
  if (a.words_.size() != b.words_.size()) return a.words_.size() <=> b.words_.size();
  return std::lexicographical_compare_three_way(a.words_.rbegin(), a.words_.rend(),
                                                b.words_.rbegin(), b.words_.rend());
}

void LongInteger::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace fairdraw::cpu
