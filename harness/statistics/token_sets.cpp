#include "harness/statistics/token_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "harness/statistics/argument.h"
#include "harness/statistics/pooling.h"

namespace fairdraw::statistics {
namespace {

constexpr std::uint32_t kTopTokens = 64;
constexpr std::uint32_t kBuckets = 32;

class Builder {
 public:
  explicit Builder(std::span<const double> probability) : probability_(probability) {
    for (std::uint32_t token = 0; token < probability.size(); ++token) {
      if (probability[token] > 0) support_.push_back(token);
    }
    by_rank_ = support_;
    std::stable_sort(by_rank_.begin(), by_rank_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return probability[a] > probability[b];
    });
  }

  using Rule = std::function<std::uint32_t(std::uint32_t)>;

  /// Adds sets of tokens by id; the function `rule` maps a token of the support to its set.
  void by_id(std::string name, double weight, const Rule& rule) {
    TokenSets sets = empty(std::move(name), weight);
    for (const std::uint32_t token : support_) sets.group_of[token] = rule(token);
    all_.push_back(std::move(sets));
  }

  /// Adds sets of tokens by rank; the function `rule` maps a token's rank to its set.
  void by_rank(std::string name, double weight, const Rule& rule) {
    TokenSets sets = empty(std::move(name), weight);
    for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
      sets.group_of[by_rank_[rank]] = rule(rank);
    }
    all_.push_back(std::move(sets));
  }

  void equal_mass() {
    TokenSets sets = empty("bucket of equal mass", 1);
    double below = 0;
    for (const std::uint32_t token : by_rank_) {
      sets.group_of[token] = std::min(kBuckets - 1, static_cast<std::uint32_t>(below * kBuckets));
      below += probability_[token];
    }
    all_.push_back(std::move(sets));
  }

  void tied_with(std::string name, std::uint32_t other) {
    by_id(std::move(name), 0.5, [&](std::uint32_t token) {
      return probability_[token] == probability_[other] ? 0 : kNoCell;
    });
  }

  const std::vector<std::uint32_t>& ranked() const { return by_rank_; }
  const std::vector<std::uint32_t>& support() const { return support_; }
  std::vector<TokenSets> take() { return std::move(all_); }

 private:
  TokenSets empty(std::string name, double weight) const {
    return {std::move(name), std::vector<std::uint32_t>(probability_.size(), kNoCell), weight};
  }

  std::span<const double> probability_;
  std::vector<std::uint32_t> support_, by_rank_;
  std::vector<TokenSets> all_;
};

std::uint32_t log2_of(std::uint32_t value) {
  std::uint32_t log = 0;
  while (value >>= 1U) ++log;
  return log;
}

}  // namespace

std::vector<TokenSets> directed_sets(std::span<const double> probability) {
  require_distribution("probability", probability);
  Builder sets(probability);
  const auto vocab = static_cast<std::uint32_t>(probability.size());
  for (const std::uint32_t lanes : {32U, 128U, 1024U}) {
    if (lanes >= vocab) continue;
    sets.by_id(fmt::format("lane of {}", lanes), 1,
               [lanes](std::uint32_t token) { return token % lanes; });
  }
  if (vocab > 1024) {
    sets.by_id("tile of 1024", 1, [](std::uint32_t token) { return token / 1024; });
  }
  if (vocab > 16) {
    const std::uint32_t part = (vocab + 15) / 16;
    sets.by_id("sixteenth of the vocabulary", 1,
               [part](std::uint32_t token) { return token / part; });
  }
  const std::uint32_t id_steps = log2_of(vocab - 1) + 1;
  for (std::uint32_t k = 0; k < id_steps && vocab > 1; ++k) {
    sets.by_id(fmt::format("ids below {}", 1U << k), 1.0 / id_steps,
               [k](std::uint32_t token) { return token >> k == 0 ? 0 : kNoCell; });
  }
  const auto support = static_cast<std::uint32_t>(sets.support().size());
  sets.by_rank("ranks from a power of 2 to the next", 1,
               [](std::uint32_t rank) { return log2_of(rank + 1); });
  const std::uint32_t rank_steps = log2_of(support) + 1;
  for (std::uint32_t k = 0; k < rank_steps; ++k) {
    sets.by_rank(fmt::format("tail from rank {}", (1U << k) - 1), 1.0 / rank_steps,
                 [k](std::uint32_t rank) { return (rank + 1) >> k > 0 ? 0 : kNoCell; });
  }
  sets.equal_mass();
  sets.by_rank("one of the most likely tokens", 1,
               [](std::uint32_t rank) { return rank < kTopTokens ? rank : kNoCell; });
  const auto alone = [&sets](const char* name, std::uint32_t chosen) {
    sets.by_id(name, 1.0 / 3,
               [chosen](std::uint32_t token) { return token == chosen ? 0 : kNoCell; });
  };
  alone("the first token", sets.support().front());
  alone("the last token", sets.support().back());
  alone("the boundary token", sets.ranked().back());
  sets.tied_with("tokens tied with the least likely", sets.ranked().back());
  sets.tied_with("tokens tied with the most likely", sets.ranked().front());
  return sets.take();
}

}  // namespace fairdraw::statistics
