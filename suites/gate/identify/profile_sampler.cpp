#include "suites/gate/identify/profile_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>

#include "harness/adapters/default_float_environment.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

using reference::Membership;

// Keeps the highest ids if an unspecified subset of equal tokens is kept.
void open_ties_to_the_highest(const std::vector<float>& values,
                              reference::RealDistribution& distribution) {
  std::map<float, std::vector<std::size_t>> ties;
  for (std::size_t id = 0; id < values.size(); ++id) {
    if (distribution.membership[id] == Membership::ambiguous) ties[values[id]].push_back(id);
  }
  for (const auto& [value, ids] : ties) {
    std::vector<double> shares;
    for (const std::size_t id : ids) shares.push_back(distribution.probability[id]);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      distribution.probability[ids[i]] = shares[shares.size() - 1 - i];
    }
  }
}

bool all_equal(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == values.front(); });
}

// Keeps all tokens of a row of equal values, if the profile may keep them.
void keep_everything(reference::RealDistribution& distribution) {
  const auto kept = std::count_if(distribution.membership.begin(), distribution.membership.end(),
                                  [](Membership m) { return m != Membership::out; });
  for (std::size_t id = 0; id < distribution.probability.size(); ++id) {
    distribution.probability[id] =
        distribution.membership[id] == Membership::out ? 0 : 1 / static_cast<double>(kept);
  }
}

bool ordinary(const std::vector<float>& logits) {
  const bool numbers = std::none_of(logits.begin(), logits.end(), [](float x) {
    return std::isnan(x) || x == std::numeric_limits<float>::infinity();
  });
  return numbers &&
         std::any_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

// Returns logits over the temperature as float32 samplers compute them: times its rounded inverse,
// and rounded. Returns an empty list if the temperature cannot be a divisor or a weight would not
// be a normal number. In such rows nothing is rounded, because an engine's result is not defined.
std::vector<float> scaled_logits(const std::vector<float>& logits, float temperature,
                                 const reference::Semantics& semantics) {
  const bool divides =
      temperature >= 0x1p-126F && temperature <= 0x1p64F &&
      static_cast<double>(temperature) >= semantics.greedy_below &&
      (semantics.temperature_place == reference::TemperaturePlace::before_filters ||
       temperature == 1);
  if (!divides || !ordinary(logits)) return {};
  const float inverse = 1 / std::max(temperature, static_cast<float>(semantics.least_temperature));
  const float largest_logit = *std::max_element(logits.begin(), logits.end());
  const float largest = largest_logit * inverse;
  constexpr float kNormal = 87;  // exp(-87) > 2^-126
  std::vector<float> scaled;
  scaled.reserve(logits.size());
  for (const float logit : logits) {
    scaled.push_back(logit * inverse);
    const bool normal = std::isinf(logit) || largest - scaled.back() < kNormal;
    // Greedy rows use the logits, so rounding must not create new ties with the maximum.
    const bool apart = logit == largest_logit || std::exp(scaled.back() - largest) < 1;
    if (!normal || !apart) return {};
  }
  return scaled;
}

}  // namespace

reference::Semantics without_slack(reference::Semantics semantics) {
  semantics.relative_weight_error = semantics.relative_sum_error = 0;
  semantics.top_p_resolution = 0;
  semantics.rounds_scaled_logits = semantics.sequential_sums = false;
  return semantics;
}

std::vector<float> float32_weights(const std::vector<float>& logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> weights;
  weights.reserve(logits.size());
  for (const float logit : logits) {
    weights.push_back(static_cast<float>(std::exp(static_cast<double>(logit - largest))));
  }
  return weights;
}

ProfileSampler::ProfileSampler(const reference::Semantics& semantics, Failing failing,
                               Manner manner)
    : semantics_(without_slack(semantics)),
      rounds_(semantics.rounds_scaled_logits),
      failing_(failing),
      manner_(std::move(manner)) {
  description_.name = "profile:" + semantics_.name;
  description_.version = std::string("fairdraw ") + FAIRDRAW_VERSION;
  description_.semantics = semantics_.name;
  description_.per_request_seeds = description_.num_samples = description_.indices = true;
  description_.allowed_mask = description_.active_rows = true;
  description_.from_probs = description_.from_probs_all_filters = true;
  // With a floor under filtered probabilities every token can be drawn, so no mask tells which
  // tokens are kept.
  description_.reports_mask = semantics_.masked_probability_floor == 0;
}

reference::RealDistribution ProfileSampler::distribution(
    const fairdraw_batch& batch, std::int64_t row, const std::vector<float>& values,
    const reference::RowParameters& parameters) const {
  reference::Semantics filters = semantics_;
  filters.masked_probability_floor = 0;  // the floor is applied after ties are decided
  if (batch.input != 0) {
    return reference::real_oracle_from_probs(values, parameters, filters, false);
  }
  std::vector<float> scaled;
  if (batch.allowed == nullptr && (rounds_ || parameters.temperature == 1)) {
    scaled = scaled_logits(values, parameters.temperature, filters);
  }
  if (!scaled.empty()) {
    filters.probability_sum = reference::ProbabilitySum::any;
    return reference::real_oracle_from_probs(float32_weights(scaled), parameters, filters, false);
  }
  std::vector<std::uint32_t> allowed;
  if (batch.allowed != nullptr) {
    const std::uint32_t* const first = batch.allowed + row * batch.allowed_stride;
    allowed.assign(first, first + (batch.vocab + 31) / 32);
  }
  return reference::real_oracle(values, allowed, parameters, filters,
                                {.constant = 0, .per_octave = 0, .truncation = false});
}

ProfileSampler::Row ProfileSampler::prepare(const fairdraw_batch& batch, std::int64_t row) const {
  Row result;
  result.active = batch.active == nullptr || batch.active[row] != 0;
  if (!result.active) return result;
  const auto vocab = static_cast<std::size_t>(batch.vocab);
  std::vector<float> values(vocab);
  std::memcpy(values.data(), static_cast<const float*>(batch.logits) + row * batch.row_stride,
              vocab * sizeof(float));
  const reference::RowParameters parameters = {batch.temperature[row], batch.top_k[row],
                                               batch.top_p[row], batch.min_p[row]};
  reference::RealDistribution distribution = this->distribution(batch, row, values, parameters);
  result.fails = distribution.must_fail;
  if (result.fails) return result;
  if (!distribution.defined) {
    distribution.probability.front() = 1;
  } else if (semantics_.equal_row == reference::EqualRow::may_stay &&
             distribution.support_low < distribution.support_high && all_equal(values)) {
    keep_everything(distribution);
  } else {
    open_ties_to_the_highest(values, distribution);
  }
  for (std::size_t id = 0; id < vocab; ++id) {
    result.kept.push_back(distribution.membership[id] == Membership::in ||
                          distribution.probability[id] > 0);
  }
  const double floor = semantics_.masked_probability_floor;
  if (distribution.defined && floor > 0 && batch.temperature[row] > 0) {
    double sum = 0;
    for (double& probability : distribution.probability)
      sum += probability = std::max(probability, floor);
    for (double& probability : distribution.probability) probability /= sum;
  }
  if (manner_.way) {
    const bool filters = distribution.defined && parameters.temperature > 0;
    const std::vector<double> whole =
        filters ? this->distribution(batch, row, values, {.temperature = parameters.temperature})
                      .probability
                : distribution.probability;
    result.draw = manner_.way({whole, distribution.probability});
    return result;
  }
  result.prefix.resize(vocab);
  std::partial_sum(distribution.probability.begin(), distribution.probability.end(),
                   result.prefix.begin());
  return result;
}

std::string ProfileSampler::run(const fairdraw_batch& batch) {
  if (batch.dtype != 0) return "profile samplers take float32";
  const harness::DefaultFloatEnvironment scope;
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    rows.push_back(prepare(batch, r));
    const Row& row = rows.back();
    if (row.fails && failing_ == Failing::calls) return "a row of it must fail";
    for (std::int64_t id = 0; batch.mask != nullptr && id < batch.vocab; ++id) {
      std::uint32_t& bits = batch.mask[r * batch.mask_stride + id / 32];
      if (id % 32 == 0) bits = 0;
      const bool kept = !row.kept.empty() && row.kept[static_cast<std::size_t>(id)];
      bits |= (kept ? 1U : 0U) << (id % 32);
    }
  }
  const auto each = [&](std::int64_t first, std::int64_t step) {
    for (std::int64_t i = first; i < batch.outputs; i += step) {
      const bool backward = manner_.order == Manner::Order::backward;
      answer(batch, rows, backward ? batch.outputs - 1 - i : i);
    }
  };
  if (manner_.order != Manner::Order::two_threads) {
    each(0, 1);
    return {};
  }
  std::thread other([&] { each(1, 2); });
  each(0, 2);
  other.join();
  return {};
}

void ProfileSampler::answer(const fairdraw_batch& batch, const std::vector<Row>& rows,
                            std::int64_t output) const {
  const std::int64_t r = batch.indices != nullptr ? batch.indices[output] : output;
  const Row* const row = r >= 0 && r < batch.rows ? &rows[static_cast<std::size_t>(r)] : nullptr;
  const bool draws = row != nullptr && row->active && !row->fails;
  const std::int64_t s = batch.seed_is_scalar != 0 ? 0 : output;
  for (std::int32_t sample = 0; sample < batch.num_samples; ++sample) {
    const std::int64_t at = output * batch.num_samples + sample;
    batch.tokens[at] = -1;
    if (!draws) continue;
    const std::int64_t index = batch.seed_is_scalar != 0 ? at : sample;
    const std::uint64_t word =
        manner_.other_words
            ? harness::mixed(harness::mixed(harness::mixed(~batch.seed[s], 0), batch.offset[s]),
                             static_cast<std::uint64_t>(index))
            : harness::random_word(batch.seed[s], batch.offset[s], Purpose::draw,
                                   static_cast<std::uint32_t>(index));
    if (row->draw) {
      batch.tokens[at] = static_cast<std::int32_t>(row->draw(Words{word}));
      continue;
    }
    const double uniform = (static_cast<double>(word >> 11) + 0.5) * 0x1p-53;
    const auto found =
        std::upper_bound(row->prefix.begin(), row->prefix.end(), uniform * row->prefix.back());
    batch.tokens[at] = static_cast<std::int32_t>(found - row->prefix.begin());
  }
}

std::unique_ptr<harness::Sampler> make_named_sampler(const std::string& name) {
  constexpr std::string_view kPrefix = "profile:";
  if (!name.starts_with(kPrefix)) return harness::make_builtin_sampler(name);
  const std::string profile = name.substr(kPrefix.size());
  const reference::Semantics* const found = reference::find_profile(profile);
  if (found == nullptr) {
    throw harness::UsageError(
        harness::unknown_name_message("semantics profile", profile, reference::profile_names()));
  }
  return std::make_unique<ProfileSampler>(*found);
}

}  // namespace fairdraw::suites
