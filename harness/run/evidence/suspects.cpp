#include "harness/run/evidence/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/run/checks/checks.h"
#include "harness/statistics/binomial.h"

namespace fairdraw::harness {
namespace {

constexpr double kStrange = 1e-6;

// A suspect, and how many standard deviations speak for it: the larger, the likelier.
struct Weighed {
  double strength = 0;
  Suspect suspect;
};

struct Strange {
  const ProfileBin* bin = nullptr;
  double strength = 0;     ///< standard deviations
  std::size_t number = 0;  ///< of strange bins in the profile
};

double deviations(double observed, double expected, std::uint64_t draws) {
  const double rest = std::max(1 - expected / static_cast<double>(draws), 0x1p-52);
  return expected > 0 ? std::abs(observed - expected) / std::sqrt(expected * rest) : 0;
}

// The strange bin that is off most; among equals one that is empty.
Strange strangest(const Profile& profile) {
  Strange result;
  for (const ProfileBin& bin : profile.bins) {
    const double p_value = statistics::binomial_p_value(
        static_cast<std::uint64_t>(bin.observed), profile.draws,
        std::min(1.0, bin.expected / static_cast<double>(profile.draws)));
    if (p_value >= kStrange / static_cast<double>(profile.bins.size())) continue;
    ++result.number;
    const double strength = deviations(bin.observed, bin.expected, profile.draws);
    const bool empty = bin.observed == 0 && (result.bin == nullptr || result.bin->observed != 0);
    const bool same_kind =
        result.bin == nullptr || (bin.observed == 0) == (result.bin->observed == 0);
    if (!empty && !(same_kind && strength > result.strength)) continue;
    result.bin = &bin;
    result.strength = strength;
  }
  return result;
}

std::string counted(const ProfileBin& bin) {
  return fmt::format("drawn {:.0f} times, expected {:.1f}", bin.observed, bin.expected);
}

// Empty bins at the end of a profile, and the draws that are missing there.
struct EmptyEnd {
  const ProfileBin* first = nullptr;
  std::size_t bins = 0;
  double expected = 0;
};

EmptyEnd empty_end(const Profile& profile) {
  EmptyEnd end;
  for (auto one = profile.bins.rbegin(); one != profile.bins.rend() && one->observed == 0; ++one) {
    end.first = &*one;
    ++end.bins;
    end.expected += one->expected;
  }
  return end;
}

void judge_lanes(const Profile& profile, std::vector<Weighed>& suspects) {
  const Strange strange = strangest(profile);
  if (strange.bin == nullptr || strange.number * 4 > profile.bins.size()) return;
  const std::string lane = fmt::format("lane {} of {} was {}", strange.bin->first, profile.modulus,
                                       counted(*strange.bin));
  if (strange.bin->observed == 0) {
    suspects.push_back({strange.strength, {"lost tokens: a lane is never drawn", lane}});
  } else {
    suspects.push_back({strange.strength,
                        {"lost tokens: a lane is drawn too often or too rarely",
                         lane + ", and most other lanes as expected"}});
  }
}

void judge_ids(const Profile& profile, std::vector<Weighed>& suspects) {
  const Strange strange = strangest(profile);
  if (strange.bin == nullptr) return;
  const ProfileBin& bin = *strange.bin;
  const bool is_first = &bin == &profile.bins.front(), is_last = &bin == &profile.bins.back();
  const EmptyEnd end = empty_end(profile);
  if ((is_first || is_last) && bin.first == bin.last && end.bins <= 1) {
    suspects.push_back({strange.strength,
                        {is_first ? "lost tokens: the first token" : "lost tokens: the last token",
                         fmt::format("token {} was {}", bin.first, counted(bin))}});
  } else if (end.bins > 0 && end.bins < profile.bins.size()) {
    // What a loop or a buffer ends before.
    suspects.push_back({deviations(0, end.expected, profile.draws),
                        {"lost tokens: the end of the vocabulary",
                         fmt::format("no token from {} on was drawn", end.first->first)}});
  } else if (strange.number * 4 <= profile.bins.size()) {
    suspects.push_back(
        {strange.strength,
         {"lost tokens: a range of ids",
          fmt::format("tokens {} to {} were {}", bin.first, bin.last, counted(bin))}});
  }
}

// A sum of residuals that stays on one side along the ranks is a distribution that is too steep or
// too flat.
void judge_ranks(const Profile& profile, std::vector<Weighed>& suspects) {
  if (strangest(profile).bin == nullptr) return;
  const EmptyEnd end = empty_end(profile);
  if (end.bins > 0 && end.bins < profile.bins.size()) {
    suspects.push_back({deviations(0, end.expected, profile.draws),
                        {"truncation: the tail is cut off",
                         fmt::format("no token from rank {} on was drawn", end.first->first)}});
    return;
  }
  double sum = 0, highest = 0, lowest = 0;
  for (const ProfileBin& bin : profile.bins) {
    sum += bin.observed - bin.expected;
    highest = std::max(highest, sum);
    lowest = std::min(lowest, sum);
  }
  // A count has a standard deviation of at most half the root of the draws.
  const double deviation = std::sqrt(static_cast<double>(profile.draws)) / 2;
  constexpr double kFar = 5;
  const auto percent = [&profile](double count) {
    return 100 * count / static_cast<double>(profile.draws);
  };
  if (highest > kFar * deviation && highest > -4 * lowest) {
    suspects.push_back({highest / deviation,
                        {"temperature: the distribution is too steep",
                         fmt::format("likelier tokens are drawn too often: {:.2f} % of the draws "
                                     "moved from the tail to the head",
                                     percent(highest))}});
  } else if (-lowest > kFar * deviation && -lowest > 4 * highest) {
    suspects.push_back({-lowest / deviation,
                        {"temperature: the distribution is too flat",
                         fmt::format("likelier tokens are drawn too rarely: {:.2f} % of the draws "
                                     "moved from the head to the tail",
                                     percent(-lowest))}});
  }
}

void judge_profiles(const std::vector<Profile>& profiles, std::vector<Suspect>& suspects) {
  std::vector<Weighed> weighed;
  for (const char* const axis : {"lane", "rank", "id"}) {
    for (const Profile& profile : profiles) {
      if (profile.axis != axis || profile.draws == 0 || profile.bins.empty()) continue;
      if (profile.axis == "lane") judge_lanes(profile, weighed);
      if (profile.axis == "rank") judge_ranks(profile, weighed);
      if (profile.axis == "id") judge_ids(profile, weighed);
    }
  }
  std::stable_sort(weighed.begin(), weighed.end(), [](const Weighed& one, const Weighed& other) {
    return one.strength > other.strength;
  });
  for (Weighed& one : weighed) suspects.push_back(std::move(one.suspect));
}

bool is_wrong(const BoundaryToken& token) {
  const bool kept = token.kept.value_or(token.drawn.value_or(0) > 0);
  const bool judged = token.kept || token.drawn;
  return judged && token.oracle != Oracle::ambiguous && kept != (token.oracle == Oracle::in);
}

// The wrong token that is nearest to the boundary.
void judge_boundary(const Boundary& boundary, std::vector<Suspect>& suspects) {
  const auto& tokens = boundary.tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const BoundaryToken& token = tokens[i];
    if (!is_wrong(token)) continue;
    const bool kept = token.oracle == Oracle::out;
    const auto wrong = std::count_if(tokens.begin(), tokens.end(), is_wrong);
    const auto same_logit = [&](std::size_t at) { return tokens[at].logit == token.logit; };
    if ((i > 0 && same_logit(i - 1)) || (i + 1 < tokens.size() && same_logit(i + 1))) {
      suspects.push_back({"ties", fmt::format("token {} has the logit of its neighbour, and is {}",
                                              token.token, kept ? "kept" : "dropped")});
    }
    const bool edge = kept ? i > 0 && tokens[i - 1].oracle != Oracle::out
                           : i + 1 < tokens.size() && tokens[i + 1].oracle != Oracle::in;
    if (edge && wrong > 1) {
      suspects.push_back({kept ? "mask: too many tokens" : "mask: too few tokens",
                          fmt::format("of the {} tokens next to the boundary {} are {}",
                                      tokens.size(), wrong, kept ? "kept" : "dropped")});
    } else if (edge && kept) {
      suspects.push_back(
          {"boundary of the mask: one token too many",
           fmt::format("token {} is the first one after the boundary", token.token)});
    } else if (edge) {
      suspects.push_back(
          {"boundary of the mask: the boundary token is dropped",
           fmt::format("token {} is the last one before the boundary", token.token)});
    } else {
      suspects.push_back({kept ? "mask: too many tokens" : "mask: too few tokens",
                          fmt::format("token {} is {} though it is far from the boundary",
                                      token.token, kept ? "kept" : "dropped")});
    }
    return;
  }
}

void judge_pit(const Evidence& evidence, std::vector<Suspect>& suspects) {
  for (const Dependence& table : evidence.dependence) {
    double largest = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < table.z.size(); ++i) {
      if (!(std::abs(table.z[i]) > largest)) continue;
      largest = std::abs(table.z[i]);
      at = i;
    }
    if (largest <= table.bound || table.columns.empty()) continue;
    suspects.push_back(
        {"shared random bits",
         fmt::format("{}, {}: z = {:.1f}, where {:.1f} is enough",
                     table.rows[at / table.columns.size()],
                     table.columns[at % table.columns.size()], largest, table.bound)});
  }
  for (const PitEcdf& pit : evidence.pit) {
    if (pit.distance <= pit.band || pit.name != "by probability") continue;
    const auto furthest =
        std::max_element(pit.difference.begin(), pit.difference.end(),
                         [](double a, double b) { return std::abs(a) < std::abs(b); });
    suspects.push_back(
        {*furthest > 0 ? "temperature: the distribution is too steep"
                       : "temperature: the distribution is too flat",
         fmt::format("the distribution function by probability is off by {:.4f}", *furthest)});
  }
}

// What an exact check is there for says what its failure means.
void judge_check(const std::string& check, std::vector<Suspect>& suspects) {
  for (const CheckEntry& entry : kChecks) {
    if (check == entry.name && entry.bug != nullptr) suspects.push_back({entry.bug, entry.reason});
  }
}

}  // namespace

void add_suspects(const std::string& check, CheckOutcome& outcome) {
  if (!outcome.failed()) return;
  Evidence& evidence = outcome.evidence;
  std::vector<Suspect>& suspects = evidence.suspects;
  // Where a mistake is known that gives the masks, their boundary adds nothing.
  if (evidence.boundary && suspects.empty()) judge_boundary(*evidence.boundary, suspects);
  judge_profiles(evidence.profiles, suspects);
  judge_pit(evidence, suspects);
  if (suspects.empty()) judge_check(check, suspects);
  // A bug is named once, for its first reason.
  std::set<std::string> named;
  std::erase_if(suspects, [&named](const Suspect& one) { return !named.insert(one.bug).second; });
}

}  // namespace fairdraw::harness
