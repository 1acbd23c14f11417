// Judges named tokens and groups of tokens by their exact binomial distributions.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/certain_distribution.h"
#include "harness/run/checks/statistical/small_mistakes.h"
#include "harness/run/checks/statistical/two_stages.h"
#include "harness/run/evidence/pictures.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

struct Group {
  std::string name;
  std::vector<std::uint32_t> tokens;
};

// Returns tokens and groups of tokens that known sampler bugs affect.
std::vector<Group> named_groups(const CertainDistribution& distribution) {
  std::vector<std::uint32_t> support;
  for (std::uint32_t token = 0; token < distribution.probability.size(); ++token) {
    if (distribution.probability[token] > 0) support.push_back(token);
  }
  std::vector<std::uint32_t> by_probability = by_falling_probability(distribution.probability);
  by_probability.resize(support.size());  // all other tokens have probability 0
  std::vector<Group> groups = {{"the most likely token", {by_probability.front()}},
                               {"the first token", {support.front()}},
                               {"the last token", {support.back()}},
                               {"the boundary token", {by_probability.back()}}};
  Group tail{"the tail of mass 1/16", {}};
  double mass = 0;
  for (std::size_t i = by_probability.size(); i > 0; --i) {
    const std::uint32_t token = by_probability[i - 1];
    mass += distribution.probability[token];
    if (mass > 1.0 / 16 && !tail.tokens.empty()) break;
    tail.tokens.push_back(token);
  }
  groups.push_back(std::move(tail));
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    Group group{fmt::format("lane {} of 16", lane), {}};
    for (const std::uint32_t token : support) {
      if (token % 16 == lane) group.tokens.push_back(token);
    }
    if (!group.tokens.empty()) groups.push_back(std::move(group));
  }
  // These are powers of two at which ids exceed 16 bits, a table on a device, or the vocabulary
  // sizes of most models.
  for (std::uint32_t power = 16; std::size_t{1} << power < distribution.probability.size();
       ++power) {
    const auto first = std::lower_bound(support.begin(), support.end(), 1U << power);
    if (first == support.begin() || first == support.end()) continue;
    groups.push_back({fmt::format("the ids from {}", 1U << power), {first, support.end()}});
  }
  return groups;
}

// Computes how well the groups detect mistakes that are smaller than the case's declared
// discrepancy.
void weigh_small_mistakes(const CertainDistribution& certain, const std::vector<Group>& groups,
                          double level, CheckOutcome& outcome) {
  const std::vector<double>& right = certain.probability;
  const std::pair<const char*, std::vector<double>> mistakes[] = {
      {"temperatures 1 % too high", at_other_temperature(right, 1.01)},
      {"temperatures 0.1 % too high", at_other_temperature(right, 1.001)},
      {"uniforms of 24 bits", with_words_of(24, right)},
  };
  for (const auto& [name, mistaken] : mistakes) {
    std::vector<CountedSet> sets;
    for (const Group& group : groups) {
      CountedSet set;
      for (const std::uint32_t token : group.tokens) {
        set.right += right[token];
        set.mistaken += mistaken[token];
      }
      sets.push_back({std::min(set.right, 1.0), std::min(set.mistaken, 1.0)});
    }
    note_small_mistake(name, sets, TwoStages(level).each, 1, outcome);
  }
}

}  // namespace

CheckOutcome check_binomial(const CheckInput& input) {
  const Request request = make_request(input, 0, 1);
  reference::RealDistribution distribution;
  if (const Lack why = find_distribution(input, request, distribution); !why.empty())
    return skipped(why);
  const CertainDistribution certain = certain_distribution(distribution);
  if (certain.support < 2 || certain_draws(input.draws, distribution) == 0)
    return skipped("the support is one token: nothing to count");
  const std::vector<Group> groups = named_groups(certain);
  const double level = input.false_fail_rate / static_cast<double>(groups.size());

  CheckOutcome outcome;
  outcome.rows = 1;
  std::vector<double> probability;
  double min_discrepancy = 0;
  for (const Group& group : groups) {
    double sum = 0;
    for (const std::uint32_t token : group.tokens) sum += certain.probability[token];
    probability.push_back(std::min(sum, 1.0));
    min_discrepancy =
        std::max(min_discrepancy, statistics::binomial_min_discrepancy(
                                      certain_draws(input.draws, distribution), probability.back(),
                                      TwoStages(level).each, kFalsePassRateOfALook));
  }
  if (min_discrepancy > input.declared_discrepancy) {
    outcome = underpowered(
        fmt::format("{} draws find a difference of {:.5f} in a probability, the case states {:.5f}",
                    input.draws, min_discrepancy, input.declared_discrepancy));
    outcome.min_discrepancy = min_discrepancy;
    return outcome;
  }
  outcome.min_discrepancy = min_discrepancy;
  outcome.measures["alpha"] = input.false_fail_rate;
  outcome.measures["groups"] = static_cast<double>(groups.size());
  const auto look_at = [&](int asked) {
    const int look = part_of_look(input).value_or(asked);
    const std::uint64_t seed = look == 0 ? input.seed : mixed(input.seed, 1);
    const CertainCounts drawn = draw_row(input, request, distribution, seed, outcome);
    std::vector<Finding> findings;
    if (part_of_look(input)) return findings;
    if (look == 0 && !outcome.failed()) note_cells(input, certain, drawn, outcome);
    double smallest = 2;  // above every p-value
    if (look == 0 && !outcome.failed()) outcome.evidence.profiles = profiles_of(certain, drawn);
    for (std::size_t i = 0; i < groups.size() && !outcome.failed(); ++i) {
      std::uint64_t count = 0;
      for (const std::uint32_t token : groups[i].tokens) count += drawn.of_token[token];
      const double p_value = statistics::binomial_p_value(count, drawn.draws, probability[i]);
      if (look == 0 && p_value < smallest) {
        outcome.evidence.effect =
            probability_effect(groups[i].name, count, drawn.draws, probability[i]);
      }
      smallest = std::min(smallest, p_value);
      findings.push_back({.name = groups[i].name,
                          .p_value = p_value,
                          .level = level,
                          .what = fmt::format("{} was drawn {} times in {}, expected {:.1f}",
                                              groups[i].name, count, drawn.draws,
                                              static_cast<double>(drawn.draws) * probability[i])});
    }
    if (look == 0) outcome.p_value = std::min(1.0, smallest * static_cast<double>(groups.size()));
    return findings;
  };
  judge_in_two_stages(look_at, outcome);
  if (part_of_look(input)) return outcome;
  if (!outcome.failed()) {
    weigh_small_mistakes(certain, groups, level, outcome);
    outcome.message =
        fmt::format("{} groups of tokens have their expected frequency", groups.size());
  }
  return outcome;
}

}  // namespace fairdraw::harness
