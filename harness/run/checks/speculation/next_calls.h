// Makes two consecutive calls of one request, as an engine does. The checks of speculation's
// distributions use this code.
//
// The request has a stream of random bits, and the second call begins after the part that the first
// call used. So if offsets are independent, as promised, the random words of the second call are
// independent of all results of the first. Given the last token of the first call, the first token
// of the second call therefore has the target's distribution, and under the token-wise rule its
// first draft is accepted as often as the rule says. A random word that both calls use, for any
// purpose, changes the counts of these tables, even if each call by itself is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// The tables are separate for each last token of the first call and for each number of its
/// accepted drafts, because words may be shared only after one of these outcomes, which may be
/// rare. Each table counts the first token of the second call and, if the rule is known, whether
/// this token is the accepted draft.
class NextCalls {
 public:
  /// `drafts`: per call. The argument `first` is the target's distribution of the second call's
  /// first token. The argument `rule` has the outcomes of the second call's first draft, or is
  /// nullptr if the rule does not determine them.
  NextCalls(const std::string& suffix, std::size_t drafts, const Distribution& first,
            const Position* rule);

  /// Returns whether a second call follows call number `call`. A second call follows each of the
  /// first eight calls that have one seed per request, if the sampler promises the independence
  /// that is tested here.
  static bool follows(const CheckInput& input, std::uint64_t call, bool seed_is_scalar);
  /// Returns the distance from the first call's offset to the second call's. Under the token-wise
  /// rule the second call starts after the emitted tokens, as the interface says. Another rule may
  /// use the words of all positions, as block verification does, so the second call then starts
  /// after all positions.
  static std::uint64_t advance(const CheckInput& input, std::int64_t drafts, std::int32_t accepted);
  /// Returns random bits for drafts of the second call, which no sampler gets.
  static std::uint64_t draft_word(const CheckInput& input, std::uint64_t call, std::uint64_t draft);

  /// Counts a pair of calls: the first call's number of accepted drafts and last token, the second
  /// call's first token, and whether that token is the accepted draft.
  void count(std::int32_t accepted, std::int32_t last, std::int32_t first, bool is_draft);
  /// Judges all tables together at `level`, as one measure.
  void judge(double level, CheckOutcome& outcome) const;

 private:
  std::string name_;
  std::size_t width_;
  bool has_rule_;
  std::vector<Table> tables_;  ///< [accepted, last token]
};

}  // namespace fairdraw::harness
