#include "harness/run/evidence/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

constexpr std::uint32_t kRankBins = 64;
constexpr std::uint64_t kIdBins = 64;
// This number of expected draws suffices for a band of two standard deviations to be roughly
// normal; a bin decides nothing.
constexpr double kExpectedPerBin = 25;
constexpr double kConfidence = 0.99;

// Adds up the draws of tokens by the index of their bin. The argument `bins` has the positions of
// the tokens in each bin.
std::vector<ProfileBin> filled(const CertainDistribution& distribution, const CertainCounts& drawn,
                               std::vector<ProfileBin> bins,
                               const std::function<std::size_t(std::size_t)>& bin_of) {
  for (std::size_t token = 0; token < distribution.probability.size(); ++token) {
    if (distribution.probability[token] == 0) continue;
    ProfileBin& bin = bins[bin_of(token)];
    bin.expected += distribution.probability[token] * static_cast<double>(drawn.draws);
    bin.observed += static_cast<double>(drawn.of_token[token]);
  }
  std::erase_if(bins, [](const ProfileBin& bin) { return bin.expected == 0; });
  for (ProfileBin& bin : bins) bin.expected = for_picture(bin.expected);
  return bins;
}

Profile by_rank(const CertainDistribution& distribution, const CertainCounts& drawn) {
  const statistics::Pooling pooling = statistics::pool_by_probability(
      distribution.probability, drawn.draws, kExpectedPerBin, kRankBins);
  std::vector<ProfileBin> bins(pooling.probability.size());
  // Cells have consecutive ranks, so it suffices to know their sizes.
  std::vector<std::uint64_t> sizes(bins.size(), 0);
  for (const std::uint32_t cell : pooling.cell_of) {
    if (cell != statistics::kNoCell) ++sizes[cell];
  }
  std::uint64_t rank = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    bins[i].first = rank;
    rank += sizes[i];
    bins[i].last = rank - 1;
  }
  return {"rank", 0, drawn.draws,
          filled(distribution, drawn, std::move(bins),
                 [&pooling](std::size_t token) { return pooling.cell_of[token]; })};
}

Profile by_id(const CertainDistribution& distribution, const CertainCounts& drawn) {
  const std::uint64_t vocab = distribution.probability.size();
  const std::uint64_t width = vocab <= kIdBins ? 1 : (vocab - 2 + kIdBins - 3) / (kIdBins - 2);
  std::vector<ProfileBin> bins = {{0, 0, 0, 0}};
  for (std::uint64_t first = 1; first + 1 < vocab; first += width) {
    bins.push_back({first, std::min(first + width, vocab - 1) - 1, 0, 0});
  }
  if (vocab > 1) bins.push_back({vocab - 1, vocab - 1, 0, 0});
  const std::size_t last = bins.size() - 1;
  return {"id", 0, drawn.draws,
          filled(distribution, drawn, std::move(bins), [vocab, width, last](std::size_t token) {
            if (token == 0) return std::size_t{0};
            return token + 1 == vocab ? last : 1 + (token - 1) / width;
          })};
}

Profile by_lane(const CertainDistribution& distribution, const CertainCounts& drawn,
                std::uint64_t lanes) {
  std::vector<ProfileBin> bins(lanes);
  for (std::uint64_t lane = 0; lane < lanes; ++lane) bins[lane].first = bins[lane].last = lane;
  return {"lane", lanes, drawn.draws,
          filled(distribution, drawn, std::move(bins),
                 [lanes](std::size_t token) { return token % lanes; })};
}

// Returns the deviation, in standard deviations, of the bin that deviates most among those with
// enough expected draws. A lost lane is most visible with as many lanes as the loop that lost it:
// with fewer lanes it is mixed with others, and with more lanes it is split.
double strangeness(const Profile& profile) {
  double largest = 0;
  const auto draws = static_cast<double>(profile.draws);
  for (const ProfileBin& bin : profile.bins) {
    if (bin.expected < kExpectedPerBin || bin.expected >= draws) continue;
    const double deviation = std::sqrt(bin.expected * (1 - bin.expected / draws));
    largest = std::max(largest, std::abs(bin.observed - bin.expected) / deviation);
  }
  return largest;
}

std::optional<Profile> strangest_lanes(const CertainDistribution& distribution,
                                       const CertainCounts& drawn) {
  constexpr double kStrange = 6;  // probability of about 1e-9 for one bin, 5e-7 for all
  std::optional<Profile> best;
  double most = kStrange;
  for (const std::uint64_t lanes : {32U, 8U, 16U, 64U, 128U, 256U}) {
    if (lanes * 2 > distribution.probability.size()) continue;
    Profile profile = by_lane(distribution, drawn, lanes);
    const double strange = strangeness(profile);
    if (best && strange <= most) continue;
    most = std::max(most, strange);
    best = std::move(profile);
  }
  return best;
}

}  // namespace

double for_picture(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

std::vector<Profile> profiles_of(const CertainDistribution& distribution,
                                 const CertainCounts& drawn) {
  if (drawn.draws == 0 || distribution.support == 0) return {};
  std::vector<Profile> profiles = {by_rank(distribution, drawn), by_id(distribution, drawn)};
  if (auto lanes = strangest_lanes(distribution, drawn)) profiles.push_back(std::move(*lanes));
  return profiles;
}

PitEcdf pit_ecdf(const std::string& name, std::vector<double> values, double level) {
  constexpr std::size_t kGrid = 65;
  PitEcdf pit;
  pit.name = name;
  pit.draws = values.size();
  if (values.empty()) return pit;
  const auto n = static_cast<double>(values.size());
  pit.band = for_picture(std::sqrt(std::log(2 / level) / (2 * n)));
  pit.distance = for_picture(statistics::uniform_distance(values));
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < kGrid; ++i) {
    const double u = static_cast<double>(i) / (kGrid - 1);
    const auto below = std::upper_bound(values.begin(), values.end(), u) - values.begin();
    pit.difference.push_back(for_picture(static_cast<double>(below) / n - u));
  }
  return pit;
}

double score_of(double p_value) {
  constexpr double kSmallest = 1e-300;
  if (!(p_value < 1)) return 0;
  const boost::math::normal standard;
  return for_picture(quantile(complement(standard, std::max(p_value, kSmallest) / 2)));
}

Boundary boundary_around(const Request& request, const reference::RealDistribution& distribution,
                         std::int64_t row, std::uint64_t reported_row, std::int64_t token,
                         const std::function<bool(std::int64_t)>& kept) {
  constexpr std::size_t kSide = 12;
  Boundary boundary;
  boundary.row = reported_row;
  boundary.filters = describe(request.parameters[static_cast<std::size_t>(row)]);
  const float* const logits = request.row(row);
  std::vector<std::int64_t> order(static_cast<std::size_t>(request.vocab));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [logits](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  // These are the weights before the filters, which top_p and min_p compare with their bounds.
  const bool probabilities = request.input == RowInput::probabilities;
  const double temperature = request.parameters[static_cast<std::size_t>(row)].temperature;
  const auto weight = [&](std::int64_t id) {
    if (probabilities) return static_cast<double>(logits[id]);
    if (temperature == 0) return logits[id] == logits[order.front()] ? 1.0 : 0.0;
    return std::exp((static_cast<double>(logits[id]) - logits[order.front()]) / temperature);
  };
  double total = 0;
  for (const std::int64_t id : order) total += weight(id);
  const auto at =
      static_cast<std::size_t>(std::find(order.begin(), order.end(), token) - order.begin());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(order.size(), at + kSide + 1); ++i) {
    const double before = sum;
    sum += weight(order[i]);
    if (i + kSide < at) continue;
    BoundaryToken entry;
    entry.token = static_cast<std::uint64_t>(order[i]);
    entry.logit = static_cast<double>(logits[order[i]]);
    entry.cumulative_low = for_picture(before / total);
    entry.cumulative_high = for_picture(sum / total);
    switch (distribution.membership[static_cast<std::size_t>(order[i])]) {
      case reference::Membership::in:
        entry.oracle = Oracle::in;
        break;
      case reference::Membership::out:
        entry.oracle = Oracle::out;
        break;
      case reference::Membership::ambiguous:
        entry.oracle = Oracle::ambiguous;
        break;
    }
    if (kept) entry.kept = kept(order[i]);
    boundary.tokens.push_back(entry);
  }
  return boundary;
}

Power power_of(const std::string& statistic, std::uint64_t cells, double level, double miss_rate,
               double declared, std::uint64_t draws,
               const std::function<double(std::uint64_t)>& found) {
  Power power{statistic, cells, level, miss_rate, declared, {}};
  constexpr int kOctaves = 4;
  for (int octave = -kOctaves; octave <= kOctaves; ++octave) {
    const auto n = static_cast<std::uint64_t>(std::ldexp(static_cast<double>(draws), octave));
    if (n > 0) power.curve.push_back({n, for_picture(found(n))});
  }
  return power;
}

void note_decisive(const std::string& statistic, double p_value, double level,
                   CheckOutcome& outcome) {
  const std::optional<Decisive>& known = outcome.evidence.decisive;
  if (known && known->p_value && *known->p_value / known->level <= p_value / level) return;
  outcome.evidence.decisive = {statistic, p_value, std::nullopt, level};
}

void note_effect(CheckOutcome& outcome) {
  if (!outcome.total_variation) return;
  outcome.evidence.effect = {"total variation",
                             *outcome.total_variation,
                             outcome.measures["total_variation_lower"],
                             outcome.measures["total_variation_upper"],
                             0.0,
                             kConfidence};
}

Effect probability_effect(const std::string& set, std::uint64_t count, std::uint64_t draws,
                          double expected) {
  const statistics::Interval interval =
      statistics::clopper_pearson_interval(count, draws, 1 - kConfidence);
  return {"probability of " + set,
          for_picture(static_cast<double>(count) / static_cast<double>(draws)),
          for_picture(interval.lower),
          for_picture(interval.upper),
          for_picture(expected),
          kConfidence};
}

}  // namespace fairdraw::harness
