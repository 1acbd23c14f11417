// The residual that siblings leave of the target, in two long integers (sibling_scales.h), is
// compared with the formulas of fairdraw/speculative.h in integers of any length. The GPU runs the
// same functions.
#include "serving/rules/sibling_scales.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <memory>
#include <random>

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;

/// Both representations of A and B, after the same rejections.
class Scales {
 public:
  Scales() { scales_->start(); }

  void reject(std::uint64_t draft_total, std::uint64_t p_sum, std::uint64_t q_sum) {
    scales_->reject(draft_total, p_sum, q_sum);
    b_ = a_ * p_sum + b_ * (draft_total - q_sum);
    a_ *= draft_total;
    ++rejected_;
  }

  cpp_int residual(std::uint64_t p, std::uint64_t q) const { return a_ * p - b_ * q; }
  /// Returns the largest weight of the target that leaves no residual after a weight q of the
  /// draft.
  cpp_int edge(std::uint64_t q) const { return b_ * q / a_; }

  void expect_left(std::uint64_t p, std::uint64_t q) {
    if (rejected_ == 0) return;  // without a rejection, all tokens are left
    const cpp_int left = residual(p, q);
    ties_ += left == 0 && p > 0 ? 1 : 0;
    EXPECT_EQ(scales_->is_left(p, q, scales_->leading()), left > 0)
        << p << " and " << q << " behind " << rejected_;
  }
  void expect_accepts(std::uint64_t word, std::uint64_t p, std::uint64_t q,
                      std::uint64_t draft_total, std::uint64_t p_sum, std::uint64_t q_sum) {
    const cpp_int chance = (cpp_int(word) * q * residual(p_sum, q_sum)) >> 64;
    const cpp_int left = residual(p, q);
    EXPECT_EQ(scales_->accepts(word, p, q, draft_total, p_sum, q_sum),
              left > 0 && chance < left * draft_total)
        << p << " and " << q << " behind " << rejected_;
  }
  void expect_prefix(std::uint64_t word, std::uint64_t p, std::uint64_t q, std::uint64_t p_sum,
                     std::uint64_t q_sum) const {
    const cpp_int t = (cpp_int(word) * residual(p_sum, q_sum)) >> 64;
    EXPECT_EQ(scales_->prefix_exceeds(word, p, q, p_sum, q_sum), residual(p, q) > t)
        << p << " and " << q << " behind " << rejected_;
  }

  int rejected() const { return rejected_; }
  int ties() const { return ties_; }

 private:
  std::unique_ptr<SiblingScales> scales_ = std::make_unique<SiblingScales>();
  cpp_int a_ = 1, b_ = 0;
  int rejected_ = 0, ties_ = 0;
};

constexpr std::uint64_t kWeight = std::uint64_t{1} << 40;  // the largest weight
constexpr std::uint64_t kSum = std::uint64_t{1} << 60;

/// Returns a number from 1 to `most` with 1 to `bits` bits; all lengths are equally likely.
std::uint64_t number_of(std::mt19937_64& random, unsigned bits, std::uint64_t most) {
  const std::uint64_t value = random() >> (64 - bits) >> (random() % bits);
  return std::min(value + 1, most);
}

void judge(Scales& scales, std::uint64_t draft_total, std::uint64_t p_sum, std::uint64_t q_sum,
           std::mt19937_64& random) {
  for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}, random(), random()}) {
    const std::uint64_t p = number_of(random, 40, kWeight) - random() % 2;
    const std::uint64_t q = number_of(random, 40, kWeight);
    scales.expect_accepts(word, p, q, draft_total, p_sum, q_sum);
    scales.expect_prefix(word, random() % (p_sum + 1), random() % (q_sum + 1), p_sum, q_sum);
    scales.expect_left(p, q);
    const cpp_int edge = scales.edge(q);
    if (edge >= kWeight) continue;
    scales.expect_left(static_cast<std::uint64_t>(edge), q);
    scales.expect_left(static_cast<std::uint64_t>(edge) + 1, q);
  }
}

TEST(SiblingScales, EqualIntegersOfAnyLength) {
  std::mt19937_64 random(5);
  int ties = 0;
  for (int run = 0; run < 600; ++run) {
    Scales scales;
    const int children = run % 100 == 0 ? kMaxSiblings : static_cast<int>(random() % 14);
    const auto p_bits = static_cast<unsigned>(1 + random() % 60);
    const auto q_bits = static_cast<unsigned>(1 + random() % 60);
    for (int child = 0;; ++child) {
      const std::uint64_t p_sum = number_of(random, p_bits, kSum);
      const std::uint64_t draft_total = number_of(random, q_bits, kSum);
      std::uint64_t q_sum = child == 0 ? 0 : random() % (draft_total + 1);
      if (scales.residual(p_sum, q_sum) <= 0) q_sum = 0;  // so that every node has a residual
      const bool is_far = child > 20 && child + 3 < kMaxSiblings;
      if (!is_far || child % 97 == 0) judge(scales, draft_total, p_sum, q_sum, random);
      if (child == children) break;
      scales.reject(draft_total, p_sum, q_sum);
    }
    ties += scales.ties();
    ASSERT_FALSE(HasFailure()) << "run " << run;
  }
  EXPECT_GT(ties, 20);
}

// The integers have their maximum length: 60 bits per child and sums of 2^60 (then B_k = k 2^(60
// k)).
TEST(SiblingScales, HaveRoomForAllSiblings) {
  std::mt19937_64 random(6);
  Scales scales;
  while (scales.rejected() < kMaxSiblings) scales.reject(kSum, kSum, 0);
  judge(scales, kSum, kSum, 0, random);
  // After k children, A = 2^(60 k) and B = k 2^(60 k), so P A = Q B if P = k Q.
  scales.expect_left(std::uint64_t{kMaxSiblings} * 5, 5);
  EXPECT_GE(scales.ties(), 1);
}

}  // namespace
}  // namespace fairdraw::suites
