// Two consecutive calls of one request, as an engine makes them. Used by the checks of
// speculation's distributions.
//
// The second call begins after the part of the request's stream of random bits that the first one
// used, so that by the promise of independent offsets its words are independent of all results of
// the first. Given the last token of the first call, the first token of the second therefore has
// the target's distribution, and under the token-wise rule its first draft is accepted as often as
// the rule says. A word that both calls use, for any purpose, shows in these tables, even if each
// call by itself is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// Tables by the last token of the first call and the number of its accepted drafts, because words
/// may be shared only after one of these outcomes, which may be rare. A table is over the first
/// token of the second call and, if the rule is known, over whether it is the accepted draft.
class NextCalls {
 public:
  /// `drafts`: per call. `first`: the target's distribution of the second call's first token.
  /// `rule`: outcomes of the second call's first draft; nullptr if the rule does not determine
  /// them.
  NextCalls(const std::string& suffix, std::size_t drafts, const Distribution& first,
            const Position* rule);

  /// Returns whether a second call follows call `call`. A second call follows each of the first
  /// eight calls with one seed per request, if the sampler promises the independence tested here.
  static bool follows(const CheckInput& input, std::uint64_t call, bool seed_is_scalar);
  /// Returns the distance of the second call's offset from the first one's. Under the token-wise
  /// rule the second call starts after the emitted tokens, as in the interface. Another rule may
  /// use the words of all positions, as block verification does, so the second call then starts
  /// after all of them.
  static std::uint64_t advance(const CheckInput& input, std::int64_t drafts, std::int32_t accepted);
  /// Returns random bits for drafts of the second call, which no sampler gets.
  static std::uint64_t draft_word(const CheckInput& input, std::uint64_t call, std::uint64_t draft);

  /// Counts the first call's accepted drafts and last token, the second call's first token, and
  /// whether it is the accepted draft.
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
