#include "reference/beam_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/integer_model.h"

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float normalised(float cumulative, std::size_t length, float penalty) {
  const double power = std::pow(static_cast<double>(length), static_cast<double>(penalty));
  return cumulative / static_cast<float>(power);
}

bool is_end(std::int32_t token, const BeamRules& rules) {
  return std::find(rules.end_ids.begin(), rules.end_ids.end(), token) != rules.end_ids.end();
}

/// Sorts best first. The sort must be stable, so that sequences of equal score keep their order.
void sort_by_score(std::vector<BeamHypothesis>& list) {
  std::stable_sort(list.begin(), list.end(), [](const BeamHypothesis& a, const BeamHypothesis& b) {
    return a.score > b.score;
  });
}

struct Candidate {
  float score = 0;
  std::size_t beam = 0;
  std::int32_t token = 0;
};

/// Returns candidates in the order of beams and tokens, so that a stable sort by score breaks ties
/// as the specification says.
std::vector<Candidate> all_candidates(const std::vector<BeamHypothesis>& live,
                                      const std::vector<std::vector<float>>& logprobs) {
  std::vector<Candidate> all;
  for (std::size_t b = 0; b < live.size(); ++b) {
    for (std::size_t t = 0; t < logprobs.at(b).size(); ++t) {
      const float score = live[b].cumulative + logprobs[b][t];
      if (score > -kInfinity) all.push_back({score, b, static_cast<std::int32_t>(t)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return all;
}

bool pool_is_done(const BeamModelState& state, const BeamRules& rules, float best,
                  std::size_t length) {
  if (state.pool.size() < static_cast<std::size_t>(rules.width)) return false;
  if (rules.early_stopping == 1) return true;
  const bool looks_ahead = rules.early_stopping == 2 && rules.length_penalty > 0;
  const std::size_t attainable = looks_ahead ? static_cast<std::size_t>(rules.max_tokens) : length;
  return state.pool.back().score >= normalised(best, attainable, rules.length_penalty);
}

}  // namespace

std::vector<float> beam_logprobs(std::span<const float> logits) {
  const IntegerRow row = integer_model(logits, {}, {});
  const auto first = std::max_element(logits.begin(), logits.end());
  const float max = *first;
  // This is the weight of the largest logit, which need not be the largest weight, because the
  // polynomial for significands can decrease between neighbouring floats.
  const RowWeight of_max = row.weight[static_cast<std::size_t>(first - logits.begin())];
  const double log_mass =
      std::log(to_nearest_double(row.total_unfiltered) / to_nearest_double(of_max));
  std::vector<float> logprobs;
  for (const float x : logits) {
    const double distance = static_cast<double>(x) - static_cast<double>(max);
    logprobs.push_back(x == -kInfinity ? x : static_cast<float>(distance - log_mass));
  }
  return logprobs;
}

void beam_step_model(BeamModelState& state, const std::vector<std::vector<float>>& logprobs,
                     const BeamRules& rules) {
  state.status = RowStatus::inactive;
  if (state.state != BeamState::live) return;
  const std::vector<Candidate> all = all_candidates(state.live, logprobs);
  state.status = all.empty() ? RowStatus::no_allowed_token : RowStatus::ok;
  if (all.empty()) return;

  const auto width = static_cast<std::size_t>(rules.width);
  const std::size_t counted = (1 + std::max<std::size_t>(1, rules.end_ids.size())) * width;
  const std::size_t length = state.live.front().tokens.size() + 1;
  std::vector<BeamHypothesis> next;
  std::vector<std::int32_t> parents;
  for (std::size_t i = 0; i < std::min(counted, all.size()); ++i) {
    if (next.size() == width) break;
    BeamHypothesis grown = state.live[all[i].beam];
    grown.tokens.push_back(all[i].token);
    grown.cumulative = all[i].score;
    if (!is_end(all[i].token, rules)) {
      next.push_back(grown);
      parents.push_back(static_cast<std::int32_t>(all[i].beam));
    } else if (i < width) {
      grown.score = normalised(grown.cumulative, length, rules.length_penalty);
      state.pool.push_back(grown);
      sort_by_score(state.pool);
      if (state.pool.size() > width) state.pool.pop_back();
    }
  }
  state.live = next;
  state.parents = std::move(parents);
  if (pool_is_done(state, rules, all.front().score, length)) {
    state.state = BeamState::pool_done;
  } else if (length == static_cast<std::size_t>(rules.max_tokens) || next.empty()) {
    state.state = BeamState::length_done;
  }
}

std::vector<BeamHypothesis> beam_result_model(const BeamModelState& state, std::size_t best,
                                              float length_penalty) {
  std::vector<BeamHypothesis> all = state.pool;
  if (state.state != BeamState::pool_done) {
    for (BeamHypothesis beam : state.live) {
      if (beam.tokens.empty()) continue;
      beam.score = normalised(beam.cumulative, beam.tokens.size(), length_penalty);
      all.push_back(beam);
    }
  }
  sort_by_score(all);
  if (all.size() > best) all.resize(best);
  return all;
}

std::vector<BeamHypothesis> all_sequences(const LanguageModel& model, const BeamRules& rules,
                                          std::size_t best) {
  std::vector<BeamHypothesis> finished;
  std::vector<BeamHypothesis> growing = {{}};
  for (std::int32_t length = 1; length <= rules.max_tokens; ++length) {
    std::vector<BeamHypothesis> longer;
    for (const BeamHypothesis& prefix : growing) {
      const std::vector<float> logprobs = model(prefix.tokens);
      for (std::size_t t = 0; t < logprobs.size(); ++t) {
        BeamHypothesis grown = prefix;
        grown.tokens.push_back(static_cast<std::int32_t>(t));
        grown.cumulative += logprobs[t];
        if (!(grown.cumulative > -kInfinity)) continue;
        const bool ends = is_end(grown.tokens.back(), rules) || length == rules.max_tokens;
        grown.score =
            ends ? normalised(grown.cumulative, grown.tokens.size(), rules.length_penalty) : 0.0F;
        (ends ? finished : longer).push_back(grown);
      }
    }
    growing = longer;
  }
  sort_by_score(finished);
  if (finished.size() > best) finished.resize(best);
  return finished;
}

}  // namespace fairdraw::reference
