// Judges a sampler's promises about its random bits. Short sequences of draws from a flat row must
// not repeat themselves or each other in any way that independent draws would not. Long sequences,
// transformed by their distribution, must be uniform and uncorrelated, within a sequence and in
// pairs of sequences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/stream_axes.h"
#include "harness/run/checks/statistical/stream_lattices.h"
#include "harness/run/checks/statistical/stream_probes.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

// The shares of the case's error budget; the rest is for the long sequences.
constexpr double kShortShare = 0.5, kLatticeShare = 0.1;
constexpr std::size_t kFirstPlans = 8;
constexpr std::uint32_t kBins = 16;  // number of bins per draw, in tables of pairs

// --- Short sequences ----------------------------------------------------------------------------

void probe(const CheckInput& input, const Request& row, const std::vector<StreamPlan>& plans,
           const ProbeDesign& design, CheckOutcome& outcome) {
  StreamProbes probes(design, row.vocab);
  std::size_t looked_at = 0;
  const auto look = [&](std::size_t first, std::size_t last) {
    const std::vector<StreamPlan> part(plans.begin() + static_cast<std::ptrdiff_t>(first),
                                       plans.begin() + static_cast<std::ptrdiff_t>(last));
    const auto streams = draw_streams(input, row, part, kStreamLength, outcome);
    for (std::size_t i = 0; i < streams.size() && !outcome.failed(); ++i) {
      looked_at += streams[i].size();
      outcome.measures["axis_" + part[i].axis] += static_cast<double>(streams[i].size());
      const std::string wrong = probes.add(part[i].name, streams[i]);
      if (wrong.empty()) continue;
      outcome.measures["draws_to_red"] = static_cast<double>(looked_at);
      outcome.evidence.observed = wrong;
      outcome.evidence.expected = fmt::format(
          "no repetition: {} equal tokens in a row, {} equal steps, {} equal differences or {} "
          "tokens that stood there before are proof",
          design.gram, design.within, design.across, design.again);
      outcome.evidence.smallest =
          fmt::format("the first {} draws from one row of {} tokens", looked_at, row.vocab);
      outcome.evidence.decisive = {"repetition", design.null_rate, std::nullopt, design.null_rate};
      outcome.fail(
          fmt::format("after {} draws {}; independent draws do any of this with "
                      "probability below {:.1e}",
                      looked_at, wrong, design.null_rate));
    }
  };
  // The first sequences cover every axis, so that most faults are found before the others are
  // drawn.
  const std::size_t first = std::min(kFirstPlans, plans.size());
  look(0, first);
  if (!outcome.failed()) look(first, plans.size());
}

// Judges seeds, offsets, outputs and samples that change together.
void look_at_lattices(const CheckInput& input, const Request& row, double most_likely,
                      CheckOutcome& outcome) {
  const std::vector<StreamLattice> lattices = stream_lattices(input);
  for (const StreamLattice& lattice : lattices) {
    if (outcome.failed()) return;
    const auto design = design_lattice(
        lattice, most_likely,
        input.false_fail_rate * kLatticeShare / static_cast<double>(lattices.size()));
    if (!design) continue;
    const std::vector<std::int32_t> tokens = draw_lattice(input, row, lattice, outcome);
    if (outcome.failed()) return;
    outcome.spend(design->null_rate);
    outcome.measures["lattice_draws"] += static_cast<double>(tokens.size());
    const std::string wrong = shared_in_lattice(lattice, *design, tokens);
    if (wrong.empty()) continue;
    outcome.evidence.observed = wrong;
    outcome.evidence.expected = "no more equal tokens at any step than independent draws have";
    outcome.evidence.decisive = {"repetition", design->null_rate, std::nullopt, design->null_rate};
    outcome.fail(
        fmt::format("{}: {}; independent draws do any of this with probability below {:.1e}",
                    lattice.name, wrong, design->null_rate));
  }
}

// Draws again with the same seeds and offsets, and expects the same tokens.
void expect_replay(const CheckInput& input, const Request& row, const StreamPlan& plan,
                   CheckOutcome& outcome) {
  const auto once = draw_streams(input, row, {plan}, kStreamLength, outcome);
  const auto again = draw_streams(input, row, {plan}, kStreamLength, outcome);
  if (outcome.failed() || once == again) return;
  outcome.fail(fmt::format("{}: the same seeds and offsets give other tokens again", plan.name));
}

// --- Long streams -------------------------------------------------------------------------------

// Returns draws transformed by the distribution of their row into uniform values, with the
// harness's own random bits within the token's interval.
std::vector<double> transformed(const std::vector<double>& prefix,
                                const std::vector<std::int32_t>& tokens, std::uint64_t seed) {
  std::vector<double> values;
  values.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    values.push_back(statistics::randomized_pit(prefix, tokens[i], mixed(seed, i)));
  }
  return values;
}

// Returns the alternating values of two streams, so that pair_counts() at lag 1 counts pairs across
// the streams.
std::vector<double> in_turn(const std::vector<double>& one, const std::vector<double>& other) {
  std::vector<double> values;
  for (std::size_t i = 0; i < one.size(); ++i) values.insert(values.end(), {one[i], other[i]});
  return values;
}

double table_p_bound(const std::vector<double>& values) {
  const std::vector<double> distribution(std::size_t{kBins} * kBins, 1.0 / (kBins * kBins));
  return statistics::goodness_of_fit(statistics::pair_counts(values, 1, kBins), distribution)
      .g_p_bound;
}

class LongStreams {
 public:
  LongStreams(double level, CheckOutcome& outcome) : level_(level), outcome_(outcome) {}

  static std::size_t tests(std::size_t streams) {
    return streams * kAlone + streams * (streams - 1) / 2 * kTogether;
  }

  /// Records the scores of every test as two tables: one of streams and lags, and one of pairs of
  /// streams.
  void note(CheckOutcome& outcome, const std::vector<std::string>& names) const {
    Dependence alone{"streams by themselves",
                     names,
                     {"uniform", "lag 1", "lag 2", "lag 3", "table of neighbours"},
                     alone_,
                     score_of(level_)};
    outcome.evidence.dependence.push_back(std::move(alone));
    const std::size_t n = names.size();
    Dependence pairs{"streams in pairs: correlation", names, names,
                     std::vector<double>(n * n, std::numeric_limits<double>::quiet_NaN()),
                     score_of(level_)};
    std::size_t next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i && next < pairs_.size(); ++j, ++next) {
        pairs.z[i * n + j] = pairs.z[j * n + i] = pairs_[next];
      }
    }
    if (n > 1) outcome.evidence.dependence.push_back(std::move(pairs));
  }

  void judge_alone(const std::string& name, const std::vector<double>& values) {
    into_ = &alone_;
    judge(name + ": uniform", statistics::uniformity_p_value(values));
    for (std::size_t lag = 1; lag <= 3; ++lag) {
      judge(fmt::format("{}: correlation at lag {}", name, lag),
            statistics::lag_correlation_p_value(values, lag));
    }
    judge(name + ": table of neighbours", table_p_bound(values));
  }

  void judge_together(const std::string& name, const std::vector<double>& one,
                      const std::vector<double>& other) {
    const auto first = std::span(one), second = std::span(other);
    const std::size_t less = one.size() - 1;
    into_ = &pairs_;
    judge(name + ": correlation", statistics::pair_correlation_p_value(first, second));
    into_ = nullptr;
    judge(name + ": correlation with the next one",
          statistics::pair_correlation_p_value(first.first(less), second.last(less)));
    judge(name + ": correlation with the one before",
          statistics::pair_correlation_p_value(first.last(less), second.first(less)));
    judge(name + ": table", table_p_bound(in_turn(one, other)));
  }

  double smallest() const { return smallest_; }

 private:
  static constexpr std::size_t kAlone = 5, kTogether = 4;

  void judge(const std::string& name, double p_value) {
    outcome_.spend(level_);
    if (into_ != nullptr) into_->push_back(score_of(p_value));
    note_decisive(name, p_value, level_, outcome_);
    smallest_ = std::min(smallest_, p_value);
    if (p_value >= level_) return;
    outcome_.fail(fmt::format("{} (p {:.2e}, level {:.1e})", name, p_value, level_));
  }

  double level_;
  CheckOutcome& outcome_;
  double smallest_ = 1;
  std::vector<double> alone_, pairs_;  ///< scores of single streams and of pairs, in test order
  std::vector<double>* into_ = nullptr;
};

void judge_long(const CheckInput& input, const Request& row,
                const reference::RealDistribution& distribution,
                const std::vector<StreamPlan>& plans, std::size_t length, double budget,
                CheckOutcome& outcome) {
  const auto tokens = draw_streams(input, row, plans, length, outcome);
  if (outcome.failed()) return;
  const std::vector<double> prefix = statistics::prefix_sums(distribution.probability);
  std::vector<std::vector<double>> streams;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    outcome.measures["axis_" + plans[i].axis] += static_cast<double>(tokens[i].size());
    for (const std::int32_t token : tokens[i]) {
      if (distribution.membership[static_cast<std::size_t>(token)] != reference::Membership::out)
        continue;
      outcome.fail(fmt::format("{}: token {} is outside of the support", plans[i].name, token));
      return;
    }
    streams.push_back(transformed(prefix, tokens[i], mixed(~input.seed, i)));
  }
  const std::size_t tests = LongStreams::tests(streams.size());
  LongStreams judge(budget / static_cast<double>(tests), outcome);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    judge.judge_alone(plans[i].name, streams[i]);
    for (std::size_t j = 0; j < i; ++j) {
      judge.judge_together(plans[j].name + " and " + plans[i].name, streams[j], streams[i]);
    }
  }
  outcome.p_value = std::min(1.0, judge.smallest() * static_cast<double>(tests));
  std::vector<std::string> names;
  for (const StreamPlan& plan : plans) names.push_back(plan.name);
  judge.note(outcome, names);
}

}  // namespace

CheckOutcome check_streams(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request row = make_request(input, 0, 1);
  if (const Lack lacks = lack_for(sampler, row); !lacks.empty()) {
    return skipped(lacks);
  }
  const std::vector<StreamPlan> shorts = short_streams(input);
  if (shorts.size() < 2) return skipped(lack_of("randomness.seeds"));
  const reference::RealDistribution distribution = distribution_of(input, row, 0);
  if (!distribution.defined || distribution.must_fail) {
    return skipped("semantics " + input.semantics.name + " gives this row no distribution");
  }
  const double most_likely = distribution.largest;
  const double rate = input.false_fail_rate * kShortShare;
  const auto design = design_probes(shorts.size(), kStreamLength, most_likely, rate);
  const std::vector<StreamPlan> longs = long_streams(input);
  const std::size_t length = longs.empty() ? 0 : input.draws / longs.size();
  if (!design && length == 0) {
    const double decided =
        *std::max_element(distribution.probability.begin(), distribution.probability.end());
    if (design_probes(shorts.size(), kStreamLength, decided, rate)) {
      return skipped(fmt::format(
          "semantics {} leave open which tokens this row keeps: one may have {:.2e}, and no "
          "repetition would be proof",
          input.semantics.name, most_likely));
    }
    return underpowered(fmt::format(
        "the most likely token has {:.2e}: no repetition in {} sequences of {} tokens is proof",
        most_likely, shorts.size(), kStreamLength));
  }

  CheckOutcome outcome;
  outcome.rows = 1;
  outcome.measures["alpha"] = input.false_fail_rate;
  const double long_budget = input.false_fail_rate * (1 - kShortShare - kLatticeShare);
  if (length > 0) {
    if (distribution.ambiguous_mass > 0) return skipped("the row has ambiguous tokens");
    outcome.min_discrepancy = statistics::g_min_discrepancy(
        length / 2, kBins * kBins,
        long_budget / static_cast<double>(LongStreams::tests(longs.size())), kFalsePassRate);
    if (*outcome.min_discrepancy > input.declared_discrepancy) {
      CheckOutcome weak = underpowered(fmt::format(
          "{} draws a stream find a total variation of {:.4f} in a table of pairs, the case states "
          "{:.4f}",
          length, *outcome.min_discrepancy, input.declared_discrepancy));
      weak.min_discrepancy = outcome.min_discrepancy;
      return weak;
    }
  }
  if (design) {
    outcome.spend(design->null_rate);
    outcome.measures["null_rate"] = design->null_rate;
    outcome.measures["gram"] = static_cast<double>(design->gram);
    outcome.measures["equal_steps"] = static_cast<double>(design->within);
    outcome.measures["equal_differences"] = static_cast<double>(design->across);
    outcome.measures["repeated_tokens"] = static_cast<double>(design->again);
    probe(input, row, shorts, *design, outcome);
  }
  if (sampler.per_request_seeds && sampler.randomness.replays && !outcome.failed()) {
    expect_replay(input, row, shorts.front(), outcome);
  }
  // Lattices are judged after the replay, because shared bits prove less if draws do not repeat.
  if (design && !outcome.failed()) look_at_lattices(input, row, most_likely, outcome);
  if (length > 0 && !outcome.failed()) {
    judge_long(input, row, distribution, longs, length, long_budget, outcome);
  }
  if (!outcome.failed()) {
    std::string axes;
    for (const auto& [name, value] : outcome.measures) {
      if (name.starts_with("axis_")) axes += (axes.empty() ? "" : ", ") + name.substr(5);
    }
    outcome.message = fmt::format("{} draws show nothing shared ({})", outcome.draws, axes);
  }
  return outcome;
}

}  // namespace fairdraw::harness
