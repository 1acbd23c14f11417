// The tests of beam search are tested themselves: a step with one mistake must differ from the
// rules on some random problem.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/serving/beam_problems.h"

namespace fairdraw::suites {
namespace {

using reference::BeamModelState;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Mistake {
  none,
  width_candidates,      ///< considers too few candidates if some of them end
  two_width_candidates,  ///< considers too few candidates if there are several end ids
  higher_beam_first,
  higher_token_first,
  any_rank_finishes,  ///< candidates after the first `width` also finish
  end_id_stays_live,
  length_without_end_id,
  no_length_penalty,
  penalty_multiplies,
  pool_keeps_first,  ///< a better sequence does not displace the worst
  pool_equal_displaces,
  pool_newest_first,  ///< among equal scores
  stops_at_once,      ///< early_stopping 0 and 2 have the effect of 1
  never_stops_early,
  zero_looks_ahead,         ///< early_stopping 0 has the effect of 2
  two_looks_at_now,         ///< early_stopping 2 has the effect of 0
  attainable_of_live_beam,  ///< uses the score of the best live beam instead of the best candidate
  ranked_by_normalised,     ///< ranks live beams by score / length^penalty, which gives the same
                            ///< order but other bits
  scores_one_ulp_low,
  banned_token_lives,  ///< candidates of -inf fill up the beams
  parent_is_rank,
  result_without_live,
  result_with_live,  ///< live beams count even if the pool is done
};

constexpr int kMistakes = static_cast<int>(Mistake::result_with_live) + 1;

float normalised(float cumulative, std::size_t length, const BeamRules& rules, Mistake mistake) {
  if (mistake == Mistake::no_length_penalty) return cumulative;
  const double power =
      std::pow(static_cast<double>(length), static_cast<double>(rules.length_penalty));
  const auto norm = static_cast<float>(power);
  return mistake == Mistake::penalty_multiplies ? cumulative * norm : cumulative / norm;
}

struct Candidate {
  float score;
  std::size_t beam;
  std::int32_t token;
};

std::vector<Candidate> candidates_of(const BeamModelState& state,
                                     const std::vector<std::vector<float>>& logprobs,
                                     Mistake mistake) {
  std::vector<Candidate> all;
  for (std::size_t b = 0; b < state.live.size(); ++b) {
    for (std::size_t t = 0; t < logprobs[b].size(); ++t) {
      float score = state.live[b].cumulative + logprobs[b][t];
      if (mistake == Mistake::scores_one_ulp_low) score = std::nextafter(score, -kInfinity);
      if (score == -kInfinity && mistake != Mistake::banned_token_lives) continue;
      all.push_back({score, b, static_cast<std::int32_t>(t)});
    }
  }
  std::sort(all.begin(), all.end(), [mistake](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.beam != b.beam) return (a.beam < b.beam) != (mistake == Mistake::higher_beam_first);
    return (a.token < b.token) != (mistake == Mistake::higher_token_first);
  });
  return all;
}

void add_to_pool(std::vector<BeamHypothesis>& pool, const BeamHypothesis& h, std::size_t width,
                 Mistake mistake) {
  const bool full = pool.size() == width;
  if (full && mistake == Mistake::pool_keeps_first) return;
  const bool equal_enters = mistake == Mistake::pool_equal_displaces;
  if (full && !(h.score > pool.back().score) && !(equal_enters && h.score == pool.back().score)) {
    return;
  }
  if (full) pool.pop_back();
  const auto place = std::find_if(pool.begin(), pool.end(), [&](const BeamHypothesis& other) {
    return mistake == Mistake::pool_newest_first ? other.score <= h.score : other.score < h.score;
  });
  pool.insert(place, h);
}

bool is_done(const BeamModelState& state, const BeamRules& rules, float best, std::size_t length,
             Mistake mistake) {
  if (state.pool.size() < static_cast<std::size_t>(rules.width)) return false;
  if (mistake == Mistake::never_stops_early) return false;
  if (rules.early_stopping == 1 || mistake == Mistake::stops_at_once) return true;
  if (mistake == Mistake::attainable_of_live_beam) {
    best = state.live.empty() ? -kInfinity : state.live.front().cumulative;
  }
  bool ahead = rules.early_stopping == 2;
  if (mistake == Mistake::zero_looks_ahead) ahead = true;
  if (mistake == Mistake::two_looks_at_now) ahead = false;
  const std::size_t attainable =
      ahead && rules.length_penalty > 0 ? static_cast<std::size_t>(rules.max_tokens) : length;
  return state.pool.back().score >= normalised(best, attainable, rules, mistake);
}

void mutated_step(BeamModelState& state, const std::vector<std::vector<float>>& logprobs,
                  const BeamRules& rules, Mistake mistake) {
  state.status = RowStatus::inactive;
  if (state.state != BeamState::live) return;
  const std::vector<Candidate> all = candidates_of(state, logprobs, mistake);
  state.status = all.empty() ? RowStatus::no_allowed_token : RowStatus::ok;
  if (all.empty()) return;
  const auto width = static_cast<std::size_t>(rules.width);
  std::size_t counted = (1 + std::max<std::size_t>(1, rules.end_ids.size())) * width;
  if (mistake == Mistake::width_candidates) counted = width;
  if (mistake == Mistake::two_width_candidates) counted = 2 * width;
  const std::size_t length = state.live.front().tokens.size() + 1;
  std::vector<BeamHypothesis> next;
  std::vector<std::int32_t> parents;
  for (std::size_t i = 0; i < std::min(counted, all.size()) && next.size() < width; ++i) {
    BeamHypothesis grown = state.live[all[i].beam];
    grown.tokens.push_back(all[i].token);
    grown.cumulative = all[i].score;
    const bool ends = std::count(rules.end_ids.begin(), rules.end_ids.end(), all[i].token) > 0;
    if (ends && (i < width || mistake == Mistake::any_rank_finishes)) {
      BeamHypothesis finished = grown;
      const std::size_t counts =
          mistake == Mistake::length_without_end_id && length > 1 ? length - 1 : length;
      finished.score = normalised(finished.cumulative, counts, rules, mistake);
      add_to_pool(state.pool, finished, width, mistake);
    }
    if (ends && mistake != Mistake::end_id_stays_live) continue;
    if (mistake == Mistake::ranked_by_normalised) {
      grown.cumulative = normalised(grown.cumulative, length, rules, mistake);
    }
    parents.push_back(mistake == Mistake::parent_is_rank ? static_cast<std::int32_t>(next.size())
                                                         : static_cast<std::int32_t>(all[i].beam));
    next.push_back(grown);
  }
  state.live = next;
  state.parents = std::move(parents);
  if (is_done(state, rules, all.front().score, length, mistake)) {
    state.state = BeamState::pool_done;
  } else if (length == static_cast<std::size_t>(rules.max_tokens) || next.empty()) {
    state.state = BeamState::length_done;
  }
}

std::vector<BeamHypothesis> mutated_result(BeamModelState state, const BeamRules& rules,
                                           Mistake mistake) {
  if (mistake == Mistake::result_without_live) state.live.clear();
  if (mistake == Mistake::result_with_live) state.state = BeamState::length_done;
  return reference::beam_result_model(state, static_cast<std::size_t>(rules.width),
                                      rules.length_penalty);
}

bool same(const BeamModelState& a, const BeamModelState& b) {
  return a.live == b.live && a.parents == b.parents && a.pool == b.pool && a.state == b.state &&
         a.status == b.status;
}

/// Returns the number of problems until the mistake shows; -1 if it never does.
int problems_until_found(Mistake mistake) {
  constexpr int kProblems = 3000;
  constexpr int kSteps = 8;  // the largest max_tokens of random_problem
  std::mt19937_64 random(7);
  for (int i = 0; i < kProblems; ++i) {
    const std::size_t vocab = 2 + random() % 12;
    const BeamProblem problem = random_problem(random, vocab);
    BeamModelState right, mutated;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::vector<float>> rows;
      for (const BeamHypothesis& beam : right.live) {
        rows.push_back(reference::beam_logprobs(problem.row(beam.tokens)));
      }
      reference::beam_step_model(right, rows, problem.rules);
      mutated_step(mutated, rows, problem.rules, mistake);
      if (!same(right, mutated)) return i + 1;
    }
    if (mutated_result(right, problem.rules, Mistake::none) !=
        mutated_result(right, problem.rules, mistake)) {
      return i + 1;
    }
  }
  return -1;
}

TEST(BeamMutants, EachIsFound) {
  EXPECT_EQ(problems_until_found(Mistake::none), -1);
  for (int mistake = 1; mistake < kMistakes; ++mistake) {
    EXPECT_GT(problems_until_found(static_cast<Mistake>(mistake)), 0) << "mistake " << mistake;
  }
}

}  // namespace
}  // namespace fairdraw::suites
