#include "suites/gate/mutants/float_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "harness/adapters/default_float_environment.h"
#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::suites {
namespace {

constexpr double kOut = -std::numeric_limits<double>::infinity();

using Scores = FloatSampler::Scores;
using Logits = FloatSampler::Logits;

bool is_allowed(const fairdraw_batch& batch, std::int64_t row, std::int64_t id) {
  if (batch.allowed == nullptr) return true;
  return ((batch.allowed[row * batch.allowed_stride + id / 32] >> (id % 32)) & 1U) != 0;
}

void apply_top_k(Scores& scores, std::int32_t top_k) {
  const auto k = static_cast<std::size_t>(top_k);
  if (top_k <= 0 || k >= scores.size()) return;
  Scores sorted = scores;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(k - 1),
                   sorted.end(), std::greater<>());
  const double cut = sorted[k - 1];
  for (double& score : scores) score = score < cut ? kOut : score;
}

void apply_min_p(Scores& scores, float min_p) {
  if (min_p <= 0) return;
  const std::vector<float> probs = float_softmax(scores);
  const float least = *std::max_element(probs.begin(), probs.end()) * min_p;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (probs[id] < least) scores[id] = kOut;
  }
}

std::vector<std::size_t> falling_order(const std::vector<float>& probs) {
  std::vector<std::size_t> order(probs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&probs](std::size_t a, std::size_t b) { return probs[a] > probs[b]; });
  return order;
}

// Removes the tokens whose inclusive mass, added up from the largest token down, exceeds p. The
// first token is always kept.
void apply_inclusive_top_p(Scores& scores, float top_p) {
  if (top_p <= 0 || top_p >= 1) return;
  const std::vector<float> probs = float_softmax(scores);
  double mass = 0;
  bool first = true;
  for (const std::size_t id : falling_order(probs)) {
    mass += static_cast<double>(probs[id]);
    if (static_cast<float>(mass) > top_p && !first) scores[id] = kOut;
    first = false;
  }
}

// The outcome of a row in an engine, before the row's values are used. anything: the profile
// defines no result, and the row gives token 0, as in engines whose softmax is NaN, so that no
// comparison is true.
enum class Fate { drawn, fails, anything };

bool in_unit_interval(float value) { return value >= 0 && value <= 1; }

bool is_divisor(float temperature) { return temperature >= 0x1p-126F && temperature <= 0x1p64F; }

// Returns whether parameters are so extreme that no engine defines their result. For such
// parameters, the correct samplers behave like engines whose weights are all 0 or NaN.
bool is_extreme(const reference::RowParameters& row) {
  return (row.temperature > 0 && !is_divisor(row.temperature)) || std::isnan(row.temperature) ||
         std::isnan(row.top_p) || std::isnan(row.min_p);
}

// Returns whether the row takes the largest logit, whatever its filters are.
bool is_greedy(FloatSampler::Order order, float temperature) {
  if (order == FloatSampler::Order::rosellm) return temperature <= 0;
  return temperature == 0 ||
         (order == FloatSampler::Order::vllm_torch && temperature > 0 && temperature < 1e-5F);
}

// Returns the outcome of a row as far as its parameters decide it. The ranges of the engines are
// written here a second time (reference/profiles.h has them for the oracle), so that this sampler
// shares nothing with its judge.
Fate fate_of_parameters(FloatSampler::Order order, const reference::RowParameters& row,
                        std::size_t vocab) {
  if (is_extreme(row)) return Fate::anything;
  if (order == FloatSampler::Order::rosellm) {
    const bool known = (row.temperature <= 0 || is_divisor(row.temperature)) && row.top_p >= 0 &&
                       in_unit_interval(row.min_p);
    if (!known) return Fate::anything;
    const bool refused = row.top_k > 0 && static_cast<std::size_t>(row.top_k) > vocab &&
                         !is_greedy(order, row.temperature);
    return refused ? Fate::fails : Fate::drawn;
  }
  const bool is_hf = order == FloatSampler::Order::hf;
  const bool temperature_known = is_divisor(row.temperature) || (row.temperature == 0 && !is_hf);
  const bool known = temperature_known && row.top_k >= (is_hf ? 1 : -1) &&
                     in_unit_interval(row.top_p) && in_unit_interval(row.min_p);
  return known ? Fate::drawn : Fate::fails;
}

// Returns the outcome of a row as far as its logits after bans decide it; engines apply bans first,
// so banned values do not count. Only transformers checks for NaN and +inf.
Fate fate_of_logits(FloatSampler::Order order, const Logits& logits) {
  const bool ordinary = std::ranges::none_of(logits, [](float logit) {
    return std::isnan(logit) || logit == std::numeric_limits<float>::infinity();
  });
  if (ordinary) return Fate::drawn;
  return order == FloatSampler::Order::hf ? Fate::fails : Fate::anything;
}

double uniform_of(std::uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1p-53; }

}  // namespace

// A row that is prepared for drawing. Tokens of equal probability race as a group: the maximum of n
// independent uniform numbers is one uniform number to the power 1 / n, and each token has it with
// equal probability. The race of a group needs one uniform number, and has the same distribution as
// a race with one uniform number per token.
struct FloatSampler::Row {
  struct Group {
    float probability;
    double log_probability;
    std::vector<std::int32_t> ids;
  };
  bool fails = false, active = true;
  std::int32_t support = 0;
  Scores scores;
  std::vector<float> probs;
  std::vector<double> prefix;  // of inverse_cdf
  std::function<std::int32_t(std::uint64_t)> pick;
  std::vector<Group> groups;  // of the races
  std::vector<std::int32_t> zeros;
};

FloatSampler::FloatSampler(Order order, Draw draw, Mutation mutation)
    : order_(order), draw_(draw), mutation_(std::move(mutation)) {
  constexpr const char* kProfiles[] = {"vllm_torch", "hf", "rosellm"};
  description_.name = "float";
  description_.version = std::string("fairdraw ") + FAIRDRAW_VERSION;
  description_.semantics = kProfiles[static_cast<std::size_t>(order)];
  description_.per_request_seeds = description_.num_samples = description_.indices = true;
  description_.allowed_mask = description_.active_rows = true;
  description_.reports_mask = description_.reports_support = true;
}

std::vector<float> float_softmax(const Scores& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<float> probs(scores.size());
  double sum = 0;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    probs[id] = std::exp(static_cast<float>(scores[id] - largest));
    sum += static_cast<double>(probs[id]);
  }
  for (float& probability : probs) {
    probability = static_cast<float>(static_cast<double>(probability) / sum);
  }
  return probs;
}

// Removes tokens from the small end whose cumulative mass is at most 1 - p. The last token is
// always kept.
void float_top_p(Scores& scores, float top_p) {
  if (top_p >= 1) return;
  const std::vector<float> probs = float_softmax(scores);
  const std::vector<std::size_t> order = falling_order(probs);
  double mass = 0;
  for (std::size_t i = order.size(); i > 1; --i) {
    mass += static_cast<double>(probs[order[i - 1]]);
    if (static_cast<float>(mass) > 1 - top_p) break;
    scores[order[i - 1]] = kOut;
  }
}

float to_bf16(float value) { return harness::rounded_to(DType::bfloat16, value); }

void FloatSampler::filter(Scores& scores, const Logits& logits,
                          const reference::RowParameters& parameters) const {
  if (mutation_.min_p) {
    mutation_.min_p(scores, logits, parameters);
  } else if (order_ == Order::vllm_torch) {
    apply_min_p(scores, parameters.min_p);
  }
  apply_top_k(scores, parameters.top_k);
  if (mutation_.top_p) {
    mutation_.top_p(scores, parameters.top_p);
  } else if (order_ == Order::rosellm) {
    apply_inclusive_top_p(scores, parameters.top_p);
  } else {
    float_top_p(scores, parameters.top_p);
  }
  if (order_ == Order::hf) apply_min_p(scores, parameters.min_p);
  if (mutation_.filtered) mutation_.filtered(scores, logits, parameters);
}

void FloatSampler::score(Scores& scores, const Logits& logits,
                         const reference::RowParameters& parameters) const {
  if (is_greedy(order_, parameters.temperature)) {
    const auto first = std::max_element(logits.begin(), logits.end());
    scores[static_cast<std::size_t>(first - logits.begin())] = 0;
    return;
  }
  const auto temperature = static_cast<double>(parameters.temperature);
  for (std::size_t id = 0; id < scores.size(); ++id) {
    scores[id] = static_cast<double>(logits[id]) / temperature;
  }
  if (mutation_.scores) mutation_.scores(scores, logits, parameters);
  filter(scores, logits, parameters);
}

FloatSampler::Row FloatSampler::prepare(const fairdraw_batch& batch, std::int64_t row) const {
  Row result;
  result.active = batch.active == nullptr || batch.active[row] != 0;
  if (!result.active) return result;
  const auto vocab = static_cast<std::size_t>(batch.vocab);
  Logits logits(vocab);
  // The bytes are copied, because rows may have any alignment.
  const auto* const bytes = static_cast<const std::byte*>(batch.logits);
  std::memcpy(logits.data(), bytes + row * batch.row_stride * std::int64_t{sizeof(float)},
              vocab * sizeof(float));
  const reference::RowParameters parameters = {batch.temperature[row], batch.top_k[row],
                                               batch.top_p[row], batch.min_p[row]};
  for (std::size_t id = 0; id < vocab; ++id) {
    if (!is_allowed(batch, row, static_cast<std::int64_t>(id))) {
      logits[id] = -std::numeric_limits<float>::infinity();
    }
  }
  Fate fate = fate_of_parameters(order_, parameters, vocab);
  if (fate == Fate::drawn) fate = fate_of_logits(order_, logits);
  const bool is_empty = std::ranges::none_of(logits, [](float logit) { return logit > kOut; });
  if (fate == Fate::drawn && is_empty) {
    fate = order_ == Order::hf ? Fate::fails : Fate::anything;
  }
  result.fails = fate == Fate::fails;
  if (result.fails) return result;

  result.scores.assign(vocab, kOut);
  if (fate == Fate::drawn) score(result.scores, logits, parameters);
  result.support = static_cast<std::int32_t>(
      std::count_if(result.scores.begin(), result.scores.end(), [](double s) { return s > kOut; }));
  if (result.support == 0) {  // no token is left, or the result is undefined: token 0 is given
    result.support = 1;
    result.scores[0] = 0;
  }
  result.probs = float_softmax(result.scores);
  if (mutation_.probabilities) mutation_.probabilities(result.probs);

  if (draw_ == Draw::inverse_cdf) {
    if (mutation_.pick) result.pick = mutation_.pick(result.probs);
    double sum = 0;
    for (const float probability : result.probs) {
      result.prefix.push_back(sum += static_cast<double>(probability));
    }
    return result;
  }
  for (const std::size_t id : falling_order(result.probs)) {
    const float probability = result.probs[id];
    const auto token = static_cast<std::int32_t>(id);
    if (probability <= 0) {
      result.zeros.push_back(token);
    } else if (result.groups.empty() || result.groups.back().probability != probability) {
      result.groups.push_back({probability, std::log(static_cast<double>(probability)), {token}});
    } else {
      result.groups.back().ids.push_back(token);
    }
  }
  return result;
}

std::int32_t FloatSampler::race(const Row& row, std::uint64_t word) const {
  std::uint64_t index = 0;
  const auto best_of = [&](std::size_t count) {
    const double uniform = uniform_of(harness::mixed(word, index++));
    return count == 1 ? uniform : std::pow(uniform, 1 / static_cast<double>(count));
  };
  const auto one_of = [&](const std::vector<std::int32_t>& ids) {
    return ids[harness::mixed(~word, index) % ids.size()];
  };
  if (mutation_.zero_wins && !row.zeros.empty() && mutation_.zero_wins(best_of(row.zeros.size()))) {
    return one_of(row.zeros);
  }
  const Row::Group* winner = nullptr;
  double best = -std::numeric_limits<double>::infinity();
  for (const Row::Group& group : row.groups) {
    const double uniform = best_of(group.ids.size());
    const double noise = mutation_.noise ? mutation_.noise(uniform) : -std::log(-std::log(uniform));
    const double score = group.log_probability + noise;
    if (winner != nullptr && score <= best) continue;
    winner = &group;
    best = score;
  }
  return winner == nullptr ? 0 : one_of(winner->ids);
}

std::int32_t FloatSampler::draw(const Row& row, std::uint64_t word) const {
  if (draw_ != Draw::inverse_cdf) return race(row, word);
  if (row.pick) return row.pick(word);
  const double position = uniform_of(word) * row.prefix.back();
  const auto found = std::upper_bound(row.prefix.begin(), row.prefix.end(), position);
  return static_cast<std::int32_t>(found - row.prefix.begin());
}

std::string FloatSampler::run(const fairdraw_batch& asked) {
  const harness::DefaultFloatEnvironment scope;
  fairdraw_batch batch = asked;
  Storage storage;
  if (mutation_.call) mutation_.call(batch, storage);
  std::vector<Row> rows;
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    rows.push_back(prepare(batch, r));
    const Row& row = rows.back();
    for (std::int64_t id = 0; batch.mask != nullptr && id < batch.vocab; ++id) {
      std::uint32_t& bits = batch.mask[r * batch.mask_stride + id / 32];
      if (id % 32 == 0) bits = 0;
      const bool kept = !row.scores.empty() && row.scores[static_cast<std::size_t>(id)] > kOut;
      bits |= (kept ? 1U : 0U) << (id % 32);
    }
  }
  for (std::int64_t output = 0; output < batch.outputs; ++output) {
    const std::int64_t r = batch.indices != nullptr ? batch.indices[output] : output;
    const Row* const row = r >= 0 && r < batch.rows ? &rows[static_cast<std::size_t>(r)] : nullptr;
    const bool draws = row != nullptr && row->active && !row->fails;
    if (batch.support_size != nullptr) batch.support_size[output] = draws ? row->support : 0;
    const std::int64_t s = batch.seed_is_scalar != 0 ? 0 : output;
    for (std::int32_t sample = 0; sample < batch.num_samples; ++sample) {
      const std::int64_t at = output * batch.num_samples + sample;
      const std::int64_t index = batch.seed_is_scalar != 0 ? at : sample;
      batch.tokens[at] =
          draws ? draw(*row, harness::random_word(batch.seed[s], batch.offset[s], Purpose::draw,
                                                  static_cast<std::uint32_t>(index)))
                : -1;
    }
  }
  return {};
}

}  // namespace fairdraw::suites
