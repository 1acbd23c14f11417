#include "suites/gate/identify/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/statistics/binomial.h"

namespace fairdraw::suites {
namespace {

using reference::Membership;
using reference::RealDistribution;

std::size_t kept_tokens(const RealDistribution& distribution) {
  return static_cast<std::size_t>(std::count_if(distribution.membership.begin(),
                                                distribution.membership.end(),
                                                [](Membership m) { return m != Membership::out; }));
}

// Returns whether a distribution gives every masked token a small probability, a floor that the
// mask does not show.
bool has_floor(const RealDistribution& distribution) {
  constexpr double kFloorAtMost = 0x1p-20;
  const double least =
      *std::min_element(distribution.probability.begin(), distribution.probability.end());
  return least > 0 && least < kFloorAtMost;
}

std::string against_mask(const Observation& seen, const RealDistribution& distribution) {
  if (has_floor(distribution)) return {};
  std::int32_t kept = 0;
  for (std::size_t id = 0; id < distribution.membership.size(); ++id) {
    const bool in = ((seen.mask[id / 32] >> (id % 32)) & 1U) != 0;
    if (in) ++kept;
    if (distribution.membership[id] == Membership::ambiguous) continue;
    if (in != (distribution.membership[id] == Membership::in)) {
      return fmt::format("the mask {} token {}", in ? "holds" : "lacks", id);
    }
  }
  if (kept >= distribution.support_low && kept <= distribution.support_high) return {};
  return fmt::format("the mask holds {} tokens, not {} to {}", kept, distribution.support_low,
                     distribution.support_high);
}

// Returns a contradiction between the drawn tokens and the support: a token outside, a missing
// token, or a wrong number of tokens.
std::string against_support(const Observation& seen, const RealDistribution& distribution) {
  const std::size_t tokens = kept_tokens(distribution);
  const MatchLevels levels = match_levels();
  std::int32_t drawn = 0;
  bool all_likely = true;  // whether every possible token would have been drawn
  for (std::size_t id = 0; id < seen.of_token.size(); ++id) {
    const std::uint64_t count = seen.of_token[id];
    if (count > 0) ++drawn;
    const double p = distribution.probability[id];
    if (distribution.membership[id] == Membership::out && count > 0) {
      return fmt::format("token {} was drawn {} times in {}", id, count, seen.draws);
    }
    const bool seen_for_sure = p > 0 && seen.draws >= draws_to_see(p, tokens, levels);
    if (p > 0 && !seen_for_sure) all_likely = false;
    if (distribution.membership[id] == Membership::in && count == 0 && seen_for_sure) {
      return fmt::format("token {} was not drawn in {}", id, seen.draws);
    }
  }
  if (drawn > distribution.support_high || (all_likely && drawn < distribution.support_low)) {
    return fmt::format("{} tokens were drawn, not {} to {}", drawn, distribution.support_low,
                       distribution.support_high);
  }
  return {};
}

// Returns a contradiction with the frequencies of a distribution that leaves nothing open. On these
// rows of few tokens the probabilities of a float32 sampler have a relative error of at most 10^-5.
// This error changes the tail of 8192 draws by a factor of at most e^0.08, which does not matter.
std::string against_frequencies(const Observation& seen, const RealDistribution& distribution) {
  // A token that is hardly ever drawn has no useful frequency.
  const auto has_frequency = [](double p) { return p > kWorthLookingFor && p < 1; };
  const auto compared = std::count_if(distribution.probability.begin(),
                                      distribution.probability.end(), has_frequency);
  const double level =
      match_levels().tail / static_cast<double>(std::max<std::ptrdiff_t>(1, compared));
  const bool all_certain =
      std::none_of(distribution.membership.begin(), distribution.membership.end(),
                   [](Membership membership) { return membership == Membership::ambiguous; });
  for (std::size_t id = 0; id < seen.of_token.size() && all_certain; ++id) {
    const double p = distribution.probability[id];
    if (!has_frequency(p)) continue;
    if (statistics::binomial_p_value(seen.of_token[id], seen.draws, p) >= level) continue;
    return fmt::format("token {} was drawn {} times in {}, expected {:.0f}", id, seen.of_token[id],
                       seen.draws, p * static_cast<double>(seen.draws));
  }
  return {};
}

bool leaves_open(const RealDistribution& distribution) {
  return distribution.ambiguous_mass > 0 || distribution.support_low != distribution.support_high;
}

}  // namespace

MatchLevels match_levels() {
  const double share = kIdentifyErrorRate / 2 / static_cast<double>(probes().size());
  return {.miss = share, .tail = share};
}

std::uint64_t draws_to_see(double least, std::size_t tokens, const MatchLevels& levels) {
  if (least >= 1) return 1;
  if (least < 0x1p-50) return std::numeric_limits<std::uint64_t>::max();  // never
  const double log_miss =
      std::log(levels.miss / static_cast<double>(std::max<std::size_t>(1, tokens)));
  return static_cast<std::uint64_t>(std::ceil(log_miss / std::log1p(-least)));
}

Match match(const Observation& seen, const RealDistribution& distribution) {
  Match result;
  const bool unanswered = !seen.not_made.empty() || !seen.broke.empty();
  if (unanswered || (!distribution.defined && !distribution.must_fail)) {
    result.unsaid = !unanswered;
    return result;
  }
  const bool ran = seen.refused.empty();
  if (distribution.must_fail) {
    if (ran && seen.no_token < seen.draws) result.contradiction = "the row did not fail";
    return result;
  }
  result.open = leaves_open(distribution);
  if (!ran) {
    result.contradiction = "the call was refused: " + seen.refused;
  } else if (seen.no_token > 0) {
    result.contradiction = fmt::format("{} of {} draws gave no token", seen.no_token, seen.draws);
  }
  if (result.fits() && !seen.mask.empty()) result.contradiction = against_mask(seen, distribution);
  if (result.fits()) result.contradiction = against_support(seen, distribution);
  if (result.fits()) result.contradiction = against_frequencies(seen, distribution);
  return result;
}

}  // namespace fairdraw::suites
