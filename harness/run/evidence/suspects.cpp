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

// A suspected cause, and the number of standard deviations that support it; the larger this number,
// the likelier the cause.
struct Weighed {
  double strength = 0;
  Suspect suspect;
  bool is_trend = false;         ///< true if the counts have a trend along the ranks
  bool is_partial_lane = false;  ///< true if the lane is drawn, but not often enough
};

struct Strange {
  const ProfileBin* bin = nullptr;
  double strength = 0;     ///< standard deviations
  std::size_t number = 0;  ///< number of strange bins in the profile
};

double deviations(double observed, double expected, std::uint64_t draws) {
  const double rest = std::max(1 - expected / static_cast<double>(draws), 0x1p-52);
  return expected > 0 ? std::abs(observed - expected) / std::sqrt(expected * rest) : 0;
}

// Returns the strange bin with the largest deviation; among equal ones an empty bin.
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

// Empty bins at the end of a profile, and the number of expected draws there.
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
                         lane + ", and most other lanes as expected"},
                        false,
                        true});
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
    // Empty bins at an end mean that a loop or a buffer ends too early.
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

// Judges trends along the ranks. If the cumulative sum of residuals has the same sign at all ranks,
// the distribution is too steep or too flat.
void judge_ranks(const Profile& profile, std::vector<Weighed>& suspects) {
  if (strangest(profile).bin == nullptr) return;
  const EmptyEnd end = empty_end(profile);
  if (end.bins > 0 && end.bins < profile.bins.size()) {
    suspects.push_back({deviations(0, end.expected, profile.draws),
                        {"truncation: the tail is cut off",
                         fmt::format("no token from rank {} on was drawn", end.first->first)},
                        true});
    return;
  }
  // The number of draws on the first ranks is binomial. The counts of a few tokens may be off by a
  // hundred standard deviations and still be a small part of all draws.
  double sum = 0, expected = 0, highest = 0, lowest = 0, above = 0, below = 0;
  for (const ProfileBin& bin : profile.bins) {
    const double before = expected;
    expected += bin.expected;
    sum += bin.observed - bin.expected;
    highest = std::max(highest, sum);
    lowest = std::min(lowest, sum);
    if (before + bin.expected >= static_cast<double>(profile.draws) * (1 - 0x1p-40)) break;
    const double sign = deviations(expected + sum, expected, profile.draws) * (sum > 0 ? 1 : -1);
    above = std::max(above, sign);
    below = std::min(below, sign);
  }
  constexpr double kFar = 6;
  const auto percent = [&profile](double count) {
    return 100 * count / static_cast<double>(profile.draws);
  };
  if (above > kFar && above > -4 * below) {
    suspects.push_back({above,
                        {"temperature: the distribution is too steep",
                         fmt::format("likelier tokens are drawn too often: {:.2f} % of the draws "
                                     "moved from the tail to the head",
                                     percent(highest))},
                        true});
  } else if (-below > kFar && -below > 4 * above) {
    suspects.push_back({-below,
                        {"temperature: the distribution is too flat",
                         fmt::format("likelier tokens are drawn too rarely: {:.2f} % of the draws "
                                     "moved from the head to the tail",
                                     percent(-lowest))},
                        true});
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
  // A likely token with a wrong count makes its lane look wrong.
  if (std::ranges::any_of(weighed, &Weighed::is_trend)) {
    std::erase_if(weighed, [](const Weighed& one) { return one.is_partial_lane; });
  }
  std::stable_sort(weighed.begin(), weighed.end(), [](const Weighed& one, const Weighed& other) {
    return one.strength > other.strength;
  });
  for (Weighed& one : weighed) suspects.push_back(std::move(one.suspect));
}

// Returns whether a token is wrongly kept or dropped. If the sampler reports a mask, the mask says
// whether it keeps or drops the token. Without a mask, a drawn token was kept, but a token that was
// not drawn proves nothing with few draws; many draws are judged by statistics.
bool is_wrong(const BoundaryToken& token) {
  if (token.oracle == Oracle::ambiguous) return false;
  if (token.kept) return *token.kept != (token.oracle == Oracle::in);
  return token.drawn.value_or(0) > 0 && token.oracle == Oracle::out;
}

// Finds a drawn token that is not in the right mask of its row.
void judge_draws(const Boundary& boundary, std::vector<Suspect>& suspects) {
  for (const BoundaryToken& token : boundary.tokens) {
    const bool out = token.kept == false && token.oracle == Oracle::out;
    if (!out || token.drawn.value_or(0) == 0) continue;
    suspects.push_back({"out of support: the draw leaves a mask that is right",
                        fmt::format("token {} is not in the mask, and was drawn", token.token)});
    return;
  }
}

// Names the wrong token that is closest to the boundary.
void judge_boundary(const Boundary& boundary, std::vector<Suspect>& suspects) {
  const auto& tokens = boundary.tokens;
  const bool has_mask = std::ranges::any_of(
      tokens, [](const BoundaryToken& token) { return token.kept.has_value(); });
  // the word for a kept token, which depends on whether the sampler reports masks
  const char* const kept_text = has_mask ? "kept" : "drawn";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const BoundaryToken& token = tokens[i];
    if (!is_wrong(token)) continue;
    const bool kept = token.oracle == Oracle::out;
    const auto wrong = std::count_if(tokens.begin(), tokens.end(), is_wrong);
    const auto same_logit = [&](std::size_t at) { return tokens[at].logit == token.logit; };
    if ((i > 0 && same_logit(i - 1)) || (i + 1 < tokens.size() && same_logit(i + 1))) {
      suspects.push_back({"ties", fmt::format("token {} has the logit of its neighbour, and is {}",
                                              token.token, kept ? kept_text : "dropped")});
    }
    const bool edge = kept ? i > 0 && tokens[i - 1].oracle != Oracle::out
                           : i + 1 < tokens.size() && tokens[i + 1].oracle != Oracle::in;
    if (edge && wrong > 1) {
      suspects.push_back({kept ? "mask: too many tokens" : "mask: too few tokens",
                          fmt::format("of the {} tokens next to the boundary {} are {}",
                                      tokens.size(), wrong, kept ? kept_text : "dropped")});
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
                                      token.token, kept ? kept_text : "dropped")});
    }
    return;
  }
}

// Judges draws that are spread more evenly than chance allows.
void judge_evenness(const Evidence& evidence, std::vector<Suspect>& suspects) {
  if (!evidence.decisive || evidence.decisive->statistic != "too_good") return;
  suspects.push_back({"shared random bits: draws depend on each other",
                      "they are nearer to the distribution than independent draws are"});
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

// Names writes outside of results, which the guards around a call's arrays detect
// (calls/request_arrays.h). Such a write is the bug, whatever the check tested.
bool judge_writes(const std::string& message, std::vector<Suspect>& suspects) {
  for (const char* const guard : {"wrote in front of ", "wrote past the end of ",
                                  "wrote between two rows of ", ", which it may only read"}) {
    if (message.find(guard) == std::string::npos) continue;
    suspects = {{"memory: writes outside of its results", message}};
    return true;
  }
  return false;
}

// Returns the beginning of a message, which becomes a part of a cause's name.
std::string as_name(std::string text) {
  constexpr std::size_t kMax = 160;
  std::ranges::replace(text, '\n', ' ');
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  return text;
}

// Names a call without results, which is a cause of its own in any check, except that the check of
// bad rows judges refusals itself.
bool judge_calls(const std::string& check, const std::string& message,
                 std::vector<Suspect>& suspects) {
  constexpr std::string_view kRefused = "call refused: ";
  const std::size_t at = message.find(kRefused);
  if (at != message.npos && default_cause(check) != "bad values") {
    suspects = {
        {"a call is refused: " + as_name(message.substr(at + kRefused.size())), as_name(message)}};
    return true;
  }
  if (message.find(fmt::format("token {}", kUnwritten)) != message.npos) {
    suspects = {{"results are not written", message}};
    return true;
  }
  return false;
}

// Beginnings of the messages of checks that compare calls, which say in which relation the calls
// differ. With the same rows, seeds and parameters, only this relation is wrong.
struct Said {
  std::string_view begins;  ///< the beginning of a check's message
  const char* bug;
  const char* bug_of_none = bug;  ///< used if the message says that a token or group was drawn 0
                                  ///< times
};
constexpr Said kSaid[] = {
    {"indices", "batches: indices"},
    {"through indices: ", "batches: indices"},
    {"row stride: ", "batches: strides"},
    {"gaps between rows: ", "batches: strides"},
    {"rows with gaps between them: ", "batches: strides"},
    {"alignment: ", "batches: alignment of rows"},
    {"padding between rows: ", "batches: rows of padding"},
    {"rows among padding: ", "batches: rows of padding"},
    {"misaligned rows: ", "batches: alignment of rows"},
    {"many rows: ", "batch dependence"},
    {"number of threads: ", "batch dependence: on the number of threads"},
    {"another result asked for: ", "requested results"},
    {"all results asked for: ", "requested results"},
    {"long lists: ", "histories: long lists and many occurrences"},
    {"marked rows in another order: ", "marks: the place in the batch"},
    {"marked rows with other seeds: ", "marks: the seed"},
    {"marked rows after other ids: ", "marks: ids before the context"},
    {"marked rows among other keys: ", "marks: keys of other rows"},
    {"unmarked rows among marked ones: ", "marks: unmarked rows"},
    {"repeated contexts: ", "marks: repeated contexts"},
    {"filters of marked rows: ", "marks: the filters"},
    {"marked rows with other keys: ", "marks: the key is ignored"},
    {"marked rows with another id ", "marks: an id of the context is ignored"},
    {"fault ", "bad values"},
    {"the sign of zeros: ", "ties: -0 and +0"},
    {"next_call", "shared random bits: with the next call"},
    {"at temperature from ", "temperature: rows in a band of temperatures"},
    {"at top_k from ", "top_k: rows in a band of top_k"},
    {"at top_p from ", "top_p: rows in a band of top_p"},
    {"at min_p from ", "min_p: rows in a band of min_p"},
    {"lane of ", "lost tokens: a lane is drawn too often or too rarely",
     "lost tokens: a lane is never drawn"},
    {"ids below ", "lost tokens: a range of ids"},
};

void judge_message(const std::string& message, std::vector<Suspect>& suspects) {
  for (const Said& said : kSaid) {
    if (!message.starts_with(said.begins)) continue;
    const bool none = message.find(" was drawn 0 times") != message.npos;
    suspects.insert(suspects.begin(),
                    {none ? said.bug_of_none : said.bug, message.substr(0, message.find(": "))});
    return;
  }
}

// Names the default cause of an exact check.
void judge_check(const std::string& check, std::vector<Suspect>& suspects) {
  for (const CheckEntry& entry : kChecks) {
    if (check == entry.name && entry.bug != nullptr) suspects.push_back({entry.bug, entry.reason});
  }
}

}  // namespace

void suspect_the_process(const std::string& why, CheckOutcome& outcome) {
  outcome.evidence.suspects = {{"the sampler itself stops: " + as_name(why), why}};
}

void suspect_the_marks(CheckOutcome& outcome) {
  outcome.evidence.suspects.push_back(
      {"marks: the distribution over keys",
       "draws with random keys, with repeated contexts and without keys differ from the row"});
}

void add_suspects(const std::string& check, CheckOutcome& outcome) {
  if (!outcome.failed()) return;
  Evidence& evidence = outcome.evidence;
  std::vector<Suspect>& suspects = evidence.suspects;
  if (judge_writes(outcome.message, suspects)) return;
  if (judge_calls(check, outcome.message, suspects)) return;
  judge_message(outcome.message, suspects);
  // The boundary of the masks is judged only if no known mistake explains the failure.
  if (evidence.boundary && suspects.empty()) {
    judge_boundary(*evidence.boundary, suspects);
    judge_draws(*evidence.boundary, suspects);
  }
  judge_profiles(evidence.profiles, suspects);
  judge_pit(evidence, suspects);
  judge_evenness(evidence, suspects);
  if (suspects.empty()) judge_check(check, suspects);
  // Each class of bugs is named once, with its first reason.
  std::set<std::string> named;
  std::erase_if(suspects, [&named](const Suspect& one) { return !named.insert(one.bug).second; });
}

}  // namespace fairdraw::harness
