// Two calls of one request, one after the other as an engine makes them. For the checks of
// speculation's distributions.
//
// The second call begins behind what the first one used of the request's stream of random bits, so
// that by the promise of independent offsets its words are independent of everything that the first
// one gave. Given the last token of the first call, the first token of the second therefore has the
// target's distribution, and under the token-wise rule what becomes of its first draft is as
// frequent as the rule says. A word that both calls use, for whatever purpose, shows here; within
// one call nothing may be wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/speculation/chain_tables.h"

namespace fairdraw::harness {

/// One table for each last token of the first call and each number of drafts that it accepted,
/// because words are shared after one of these perhaps, which may be rare: over the first token of
/// the second call, and where the rule is known over whether it is its accepted draft.
class NextCalls {
 public:
  /// `drafts`: of a call. `first`: the target's distribution of the second call's first token.
  /// `rule`: what becomes of its first draft; nullptr: the rule does not say.
  NextCalls(const std::string& suffix, std::size_t drafts, const Distribution& first,
            const Position* rule);

  /// True where the sampler promises what these tables need, for calls with a seed a request. The
  /// first eight calls are followed by a second one, the same for every sampler.
  static bool follows(const CheckInput& input, std::uint64_t call, bool seed_is_scalar);
  /// How far the second call's offset is from the first one's. Under the token-wise rule behind the
  /// emitted tokens, as the interface has it. Another rule may decide them with the words of all
  /// positions, as block verification does: behind all of these.
  static std::uint64_t advance(const CheckInput& input, std::int64_t drafts, std::int32_t accepted);
  /// Random bits for drafts of the second call, which no sampler is given.
  static std::uint64_t draft_word(const CheckInput& input, std::uint64_t call, std::uint64_t draft);

  /// The first call's accepted drafts and last token; the second one's first token, and whether
  /// that is its draft.
  void count(std::int32_t accepted, std::int32_t last, std::int32_t first, bool is_draft);
  /// All tables together at `level`, as one measure.
  void judge(double level, CheckOutcome& outcome) const;

 private:
  std::string name_;
  std::size_t width_;
  bool has_rule_;
  std::vector<Table> tables_;  ///< [accepted, last token]
};

}  // namespace fairdraw::harness
