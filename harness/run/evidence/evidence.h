// Has the data for the cards and pictures of a report: numbers that a check saw, besides its
// verdict. Evidence decides nothing, and all of its fields may be absent.
//
// The amount of data is bounded, so that the file of a report opens at once: no list of a case has
// more than kMaxPoints entries, and keep_evidence_within_bounds (record.h) bounds the lists of a
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fairdraw::harness {

inline constexpr std::size_t kMaxPoints = 256;  ///< maximum length of a list, or cells of a matrix

/// The tokens in one bin of a profile, which has the positions first to last along its axis, both
/// included.
struct ProfileBin {
  std::uint64_t first = 0, last = 0;
  double expected = 0;  ///< expected number of draws under the distribution
  double observed = 0;  ///< draws
};

/// Observed and expected draws along one axis of the tokens. Under the distribution the draws of a
/// bin are binomial, with the standard deviation sqrt(expected * (1 - expected / draws)). Bins are
/// pooled by the distribution alone, before a draw is made. An error looks different along each
/// axis, and the three axes together identify it.
struct Profile {
  std::string axis;  ///< "rank" (by decreasing probability), "id", or "lane" (id modulo `modulus`)
  std::uint64_t modulus = 0;     ///< number of lanes; 0 for the other two axes
  std::uint64_t draws = 0;       ///< number of draws in all bins together
  std::vector<ProfileBin> bins;  ///< in the order of the axis, without overlap
};

/// Draws from many rows, each of which is transformed by the distribution function of its own row,
/// so that the values are uniform under the distribution. The curve is the empirical distribution
/// function minus the uniform one.
struct PitEcdf {
  std::string
      name;  ///< order in which the distributions were summed up: "by probability" or "by id"
  std::uint64_t draws = 0;
  double band = 0;  ///< half width of the simultaneous band at the case's level (DKW)
  double distance =
      0;  ///< largest absolute difference anywhere, not only at the points of `difference`
  std::vector<double> difference;  ///< values at i / (size - 1), including the ends 0 and 1
};

/// A point of the curve that shows the evidence against the distribution by number of draws.
struct GrowthPoint {
  std::uint64_t draws = 0;
  double log10_e = 0;
};
struct Growth {
  std::string name;     ///< subject of the bets on which the curve is based
  double decision = 0;  ///< log10 of the evidence that fails the case
  std::vector<GrowthPoint> points;
};

/// The dependence between streams that must be independent, as standard normal scores.
struct Dependence {
  std::string name;  ///< kind of scores: "streams by lag", "rows", ...
  std::vector<std::string> rows, columns;
  std::vector<double> z;  ///< [rows][columns], row after row; NaN if nothing was compared
  double bound = 0;       ///< absolute value that a score exceeds with its share of the level
};

/// The oracle's answer about a token.
enum class Oracle { in, out, ambiguous };
const char* to_string(Oracle oracle);

struct BoundaryToken {
  std::uint64_t token = 0;
  double logit = 0;  ///< logit that the sampler got; a probability in rows of probabilities
  double cumulative_low = 0, cumulative_high = 0;  ///< mass of the allowed tokens before this
                                                   ///< token, and up to and including it, by
                                                   ///< decreasing probability
  Oracle oracle = Oracle::ambiguous;
  std::optional<bool> kept;            ///< true if the sampler's mask keeps the token
  std::optional<std::uint64_t> drawn;  ///< number of draws of the token
};

/// The tokens around the boundary of the mask of one row, by decreasing logit. A token is wrong if
/// the oracle is certain about it and the sampler contradicts the oracle.
struct Boundary {
  std::uint64_t row = 0;  ///< number of the row in the case
  std::string filters;    ///< text such as "temperature 0.7, top_k 50, top_p 0.9, min_p 0"
  std::vector<BoundaryToken> tokens;
};

/// The discrepancy that a number of draws finds, for the case's draws and for other numbers.
struct PowerPoint {
  std::uint64_t draws = 0;
  double min_discrepancy = 0;  ///< found with a miss probability of at most `miss_rate`
};
struct Power {
  std::string statistic;    ///< the statistic: "g", "dkwm", "binomial", "dirichlet"
  std::uint64_t cells = 0;  ///< 0: none
  double level = 0;         ///< false alarm rate of the statistic above
  double miss_rate = 0;
  double declared = 0;            ///< discrepancy that the case must find
  std::vector<PowerPoint> curve;  ///< by increasing draws
};

/// A measured value with its confidence interval.
struct Effect {
  std::string name;  ///< the measured quantity: "total variation", "probability of lane 3 of 16"
  double value = 0, low = 0, high = 0;
  std::optional<double> expected;  ///< value under the distribution, if it is a number
  double confidence = 0;           ///< of the interval: 0.99
};

/// The statistic that decided, or that came closest to a decision.
struct Decisive {
  std::string statistic;
  std::optional<double> p_value;  ///< or else log10_e
  std::optional<double> log10_e;  ///< log10 of the evidence E of a bet
  double level = 0;               ///< level for p_value, or 1 over the evidence needed
};

/// A class of bugs that would cause such a failure.
struct Suspect {
  std::string bug;     ///< name in suspects.h: "lost lane", "temperature", ...
  std::string reason;  ///< the observation behind the suspicion, in one sentence
};

/// The evidence of one case.
struct Evidence {
  std::string observed, expected;  ///< the same quantity in few words: "token 17", "token 16"
  std::string smallest;            ///< smallest form of the case that still fails
  std::optional<Effect> effect;
  std::optional<Decisive> decisive;
  std::vector<Suspect> suspects;  ///< likeliest first
  std::vector<Profile> profiles;
  std::vector<PitEcdf> pit;
  std::vector<Growth> growth;
  std::vector<Dependence> dependence;
  std::optional<Boundary> boundary;
  std::optional<Power> power;
};

}  // namespace fairdraw::harness
