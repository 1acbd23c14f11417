// Exact residual of the target after rejected siblings, and after a prefix of a block
// (fairdraw/speculative.h). The arithmetic is the same for every backend.
//
// The residual of a node begins as the target's weights, R_0 = P. After child k is rejected, the
// residual is R_{k+1}(j) = max(R_k(j) Z_k - Q_k(j) S_k, 0), where Z_k is the sum of Q_k and S_k the
// sum of R_k. If these weights were stored, each weight of R_k would have 60 k + 40 bits, for every
// token. Instead, two long integers A_k and B_k represent the whole residual of a node, with A_0 =
// 1 and B_0 = 0.
//     A_{k+1} = A_k Z_k, B_{k+1} = B_k Z_k + S_k:  R_k(j) = max(P(j) A_k - Q_0(j) B_k, 0)
// This holds for every token j that is not among the children before k; for these children, R_k is
// 0. Three facts show that the formula holds.
//   - If P A_k - Q B_k <= 0, then R_k is 0 and so is R_{k+1}, because B / A never falls.
//   - Otherwise R_{k+1} = (P A_k - Q B_k) Z_k - Q S_k, which has that form.
//   - A child x is rejected only if its chance is below 1: R_k(x) Z_k < Q_k(x) S_k, which means
//     R_{k+1}(x) = 0. So it does not matter if Q_{k+1} lacks x.
// The set M_k of the tokens with R_k > 0 never grows. All sums over M_k follow from the sums of P
// and Q over M_k, which have 60 bits.
//     S_k = A_k P(M_k) - B_k Q(M_k), B_{k+1} = A_k P(M_k) + B_k (Z_k - Q_k(M_k)),
// Here Q_k equals Q_0 on M_k. The leading 87 bits of A and B decide whether a token stays in M; the
// other bits are read only if the leading bits do not decide.
//
// After every rejection, some token has a positive residual and can be drawn. R_k Z_k and Q_k S_k
// have the same sum, so if the first is smaller than the second for one token, it is larger for
// another token, and S_{k+1} > 0 after every rejected child.
//
// No test computes a whole long integer, because all tests are linear in A and B.
//     child accepted   word Q S < 2^64 R Z        with R = P A - Q B, S as above;
//     a token is drawn word S < 2^64 times the weight of R up to it;
//     a token is left  0 < P A - Q B.
// Each test has the form A u > B v with u and v of 165 bits. The difference of the two sides is
// computed from the leading words of A and B on, until later words can no longer change its sign;
// this takes three or four words in nearly all cases.
//
// The residual of block verification after a prefix with the share r, max(r P(j) Zq - 2^64 Q(j) Zp,
// 0), has the same form with A = r Zq and B = 2^64 Zp. Its test has the same form, too. S is A P(M)
// - B Q(M), and (2^64 - r) Zp Zq is B Zq - A Zp. The prefix passes if word (S + B Zq - A Zp) < 2^64
// S. With the complement 2^64 - word, this is
//     2^64 (A Zp - B Zq) > (2^64 - word) (A (Zp - P(M)) - B (Zq - Q(M))).
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/speculative.h"

namespace fairdraw {

/// Long integers A and B of one node at a time.
class SiblingScales {
 public:
  /// Leading bits floor(A / 2^shift) and floor(B / 2^shift), at most 87 bits each, so that a
  /// product with a weight, which is at most 2^40, fits into 128 bits.
  struct Leading {
    int shift;
    uint128_t a, b;
  };

  /// Starts a node that has no rejected children.
  FAIRDRAW_HOST_DEVICE void start() {
    count_ = 1;
    a_[0] = 1;
    b_[0] = 0;
  }

  /// Starts a node of block verification, where only the share `share` 2^-64 of the target may be
  /// emitted, 0 < share <= 2^64. Both A and B are divided by 2^64 if the share is 2^64.
  FAIRDRAW_HOST_DEVICE void start(uint128_t share, std::uint64_t target_total,
                                  std::uint64_t draft_total) {
    const auto part = low(share);
    const uint128_t a = static_cast<uint128_t>(part) * draft_total;
    const bool is_whole = part == 0;
    count_ = is_whole ? 1 : 2;
    a_[0] = is_whole ? draft_total : low(a);
    b_[0] = is_whole ? target_total : 0;
    if (is_whole) return;
    a_[1] = high(a);
    b_[1] = target_total;
  }

  /// Updates A and B after a child has been rejected. Here draft_total is Z_k, and p_sum and q_sum
  /// are the sums of P and Q over M_k; q_sum may be 0 before the first rejection, because its
  /// factor B is 0. Precondition: S_k > 0, so that B does not decrease; the function may be called
  /// at most kMaxSiblings times.
  FAIRDRAW_HOST_DEVICE void reject(std::uint64_t draft_total, std::uint64_t p_sum,
                                   std::uint64_t q_sum) {
    const std::uint64_t rest = draft_total - q_sum;
    std::uint64_t a_carry = 0, b_carry = 0;  // the sum of two products of 124 bits and a carry fits
                                             // into 128 bits
    for (int i = 0; i < count_; ++i) {
      const uint128_t a = static_cast<uint128_t>(a_[i]) * draft_total + a_carry;
      const uint128_t b =
          static_cast<uint128_t>(a_[i]) * p_sum + static_cast<uint128_t>(b_[i]) * rest + b_carry;
      a_[i] = low(a);
      b_[i] = low(b);
      a_carry = high(a);
      b_carry = high(b);
    }
    if ((a_carry | b_carry) == 0) return;
    a_[count_] = a_carry;
    b_[count_++] = b_carry;
  }

  FAIRDRAW_HOST_DEVICE Leading leading() const {
    constexpr int kBits = 87;
    const std::uint64_t top = a_[count_ - 1] | b_[count_ - 1];  // not 0
    int bits = 64 * count_;
    for (std::uint64_t bit = std::uint64_t{1} << 63; (top & bit) == 0; bit >>= 1) --bits;
    const int shift = bits > kBits ? bits - kBits : 0;
    return {shift, shifted(a_, shift), shifted(b_, shift)};
  }

  /// Returns whether a token with the weights p and q stays in the residual, which means that P A >
  /// Q B. The argument `leading` must be the result of leading().
  FAIRDRAW_HOST_DEVICE bool is_left(std::uint64_t p, std::uint64_t q,
                                    const Leading& leading) const {
    if (p == 0) return false;
    if (q == 0) return true;
    if (leading.shift == 0) return p * leading.a > q * leading.b;
    if (p * leading.a >= q * (leading.b + 1)) return true;
    if (p * (leading.a + 1) <= q * leading.b) return false;
    return exceeds(p, q, 0, 0, 0);
  }

  /// Returns whether the next child is accepted; its weights are p in the target and q > 0 in the
  /// draft. The condition is floor(word q S / 2^64) < R Z, which is word q S < 2^64 R Z (S > 0, so
  /// R > 0).
  FAIRDRAW_HOST_DEVICE bool accepts(std::uint64_t word, std::uint64_t p, std::uint64_t q,
                                    std::uint64_t draft_total, std::uint64_t p_sum,
                                    std::uint64_t q_sum) const {
    const uint128_t factor = q;
    return exceeds(static_cast<uint128_t>(p) * draft_total, factor * draft_total, factor * p_sum,
                   factor * q_sum, word);
  }

  /// Returns whether a prefix of block verification passes; p_sum and q_sum are the sums of P and Q
  /// over M. Precondition: M has a token.
  FAIRDRAW_HOST_DEVICE bool passes(std::uint64_t word, std::uint64_t target_total,
                                   std::uint64_t draft_total, std::uint64_t p_sum,
                                   std::uint64_t q_sum) const {
    if (word == 0) return true;  // the complement of 0 has 65 bits
    return exceeds(target_total, draft_total, target_total - p_sum, draft_total - q_sum, ~word + 1);
  }

  /// Returns whether a prefix of M, with the sums p and q of its weights, weighs more than
  /// floor(word S / 2^64), which means that word S < 2^64 times its weight.
  FAIRDRAW_HOST_DEVICE bool prefix_exceeds(std::uint64_t word, std::uint64_t p, std::uint64_t q,
                                           std::uint64_t p_sum, std::uint64_t q_sum) const {
    return exceeds(p, q, p_sum, q_sum, word);
  }

 private:
  /// Number of words that A and B have. After k rejected children, A_k <= 2^(60 k) and B_k <= k
  /// 2^(60 k), because Z and S are at most 2^60; so 1024 children need 60 k + 11 bits.
  static constexpr int kWords = (60 * kMaxSiblings + 11 + 63) / 64;

  /// Integer of 256 bits in two's complement.
  struct Wide {
    std::uint64_t word[4];

    FAIRDRAW_HOST_DEVICE void add_product(const Wide& value, std::uint64_t factor) {
      std::uint64_t carry = 0;
      for (int i = 0; i < 4; ++i) {
        const uint128_t sum = static_cast<uint128_t>(value.word[i]) * factor + word[i] + carry;
        word[i] = low(sum);
        carry = high(sum);
      }
    }
    FAIRDRAW_HOST_DEVICE void shift_by_a_word() {
      word[3] = word[2];
      word[2] = word[1];
      word[1] = word[0];
      word[0] = 0;
    }
    FAIRDRAW_HOST_DEVICE bool is_negative() const { return (word[3] >> 63) != 0; }
    /// Returns whether the integer is at least 2^165, or below -2^165.
    FAIRDRAW_HOST_DEVICE bool is_large() const {
      constexpr std::uint64_t kBound = std::uint64_t{1} << (165 - 128);
      if (is_negative()) return ~word[3] != 0 || ~word[2] >= kBound;
      return word[3] != 0 || word[2] >= kBound;
    }
  };

  FAIRDRAW_HOST_DEVICE static std::uint64_t low(uint128_t value) {
    return static_cast<std::uint64_t>(value);
  }
  FAIRDRAW_HOST_DEVICE static std::uint64_t high(uint128_t value) {
    return static_cast<std::uint64_t>(value >> 64);
  }

  /// Returns 2^64 u - word v, for u and v of at most 100 bits.
  FAIRDRAW_HOST_DEVICE static Wide difference(uint128_t u, uint128_t v, std::uint64_t word) {
    Wide result{{0, low(u), high(u), 0}};
    const Wide minus_v{{~low(v), ~high(v), ~std::uint64_t{0}, ~std::uint64_t{0}}};  // -v - 1
    result.add_product(minus_v, word);
    result.add_product({{1, 0, 0, 0}}, word);
    return result;
  }

  /// Returns whether 2^64 (A p - B q) > word (A p_sum - B q_sum); no argument may have more than
  /// 100 bits. The words that are not yet examined add less than the coefficients, each of which is
  /// at most 2^164. A value below 2^165 leaves room for two more products.
  FAIRDRAW_HOST_DEVICE bool exceeds(uint128_t p, uint128_t q, uint128_t p_sum, uint128_t q_sum,
                                    std::uint64_t word) const {
    const Wide of_a = difference(p, p_sum, word);
    Wide of_b = difference(q, q_sum, word);
    for (std::uint64_t& part : of_b.word) part = ~part;  // -of_b - 1
    Wide sum{};
    for (int i = count_ - 1; i >= 0; --i) {
      sum.shift_by_a_word();
      sum.add_product(of_a, a_[i]);
      sum.add_product(of_b, b_[i]);
      sum.add_product({{1, 0, 0, 0}}, b_[i]);
      if (sum.is_large()) break;
    }
    return !sum.is_negative() && (sum.word[0] | sum.word[1] | sum.word[2] | sum.word[3]) != 0;
  }

  FAIRDRAW_HOST_DEVICE uint128_t shifted(const std::uint64_t* words, int shift) const {
    const int first = shift / 64;
    const int rest = shift % 64;
    const auto word = [&](int i) { return i < count_ ? words[i] : 0; };
    const uint128_t value = static_cast<uint128_t>(word(first + 1)) << 64 | word(first);
    if (rest == 0) return value;
    return value >> rest | static_cast<uint128_t>(word(first + 2)) << (128 - rest);
  }

  int count_;  ///< number of words, stored with the lowest first; the last word is not 0 in both A
               ///< and B
  std::uint64_t a_[kWords], b_[kWords];
};

}  // namespace fairdraw
