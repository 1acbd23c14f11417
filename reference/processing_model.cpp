// The model first collects all faults of the lists, also of lists that have no effect, and reports
// the first fault in the order of the statuses. Then each step of logits processing goes over the
// whole vocabulary. The code shares nothing with the kernels.
#include "reference/processing_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>

#include "reference/probability_filters.h"

namespace fairdraw::reference {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = 0x1p64F;
__extension__ using Wide = __int128;

std::vector<std::int32_t> ids_of_row(const TokenLists& lists, std::int64_t row, RowStatus fault,
                                     std::vector<RowStatus>& outside) {
  if (!lists.given()) return {};
  const std::int64_t begin = lists.begins.data[row];
  const std::int64_t length = lists.lengths.data[row];
  // The sum of a begin and a length could overflow, because a begin may be as large as its type
  // allows.
  if (begin < 0 || length < 0 || begin > lists.size || length > lists.size - begin) {
    outside.push_back(fault);
    return {};
  }
  if (length == 0) return {};
  return {lists.data + begin, lists.data + begin + length};
}

bool within(float value, float low, float high) { return value >= low && value <= high; }

bool has_penalty(const RowProcessing& row) {
  return row.repetition_penalty != 1 || row.frequency_penalty != 0 || row.presence_penalty != 0;
}

/// Prompt and output of a row, as far as the penalties see them.
struct SeenHistory {
  std::vector<std::int32_t> prompt, output;

  explicit SeenHistory(const RowProcessing& row) : prompt(row.prompt), output(row.output) {
    if (row.penalty_window < 0) return;
    const auto window = static_cast<std::size_t>(row.penalty_window);
    while (prompt.size() + output.size() > window) {
      auto& oldest = prompt.empty() ? output : prompt;
      oldest.erase(oldest.begin());
    }
  }
};

/// True if any of the ids is neither a token nor, in histories, a placeholder.
bool any_stranger(const std::vector<std::int32_t>& ids, std::size_t vocab, std::int32_t lowest) {
  return std::ranges::any_of(ids, [vocab, lowest](std::int32_t id) {
    return id < lowest || static_cast<std::int64_t>(id) >= static_cast<std::int64_t>(vocab);
  });
}

RowStatus check_parameters(const RowProcessing& row) {
  if (!within(row.repetition_penalty, 0x1p-64F, kLargest) ||
      !within(row.frequency_penalty, -kLargest, kLargest) ||
      !within(row.presence_penalty, -kLargest, kLargest)) {
    return RowStatus::invalid_penalty;
  }
  if (row.min_tokens < 0) return RowStatus::invalid_min_tokens;
  const float n = row.top_n_sigma;
  if (!(n >= 0) && n != -1) return RowStatus::invalid_top_n_sigma;
  const auto is_switch = [](std::int32_t value) { return value == 0 || value == 1; };
  if (row.filter_chain != 0 && filter_steps(row).empty()) {
    return RowStatus::invalid_probability_filter;
  }
  if (!within(row.chain_temperature, 0x1p-126F, kLargest) || row.chain_top_k < -1 ||
      !within(row.chain_top_p, 0, 1) || !within(row.chain_min_p, 0, 1) ||
      !within(row.dynatemp_range, 0, kLargest) || !within(row.dynatemp_exponent, 0, kLargest) ||
      !within(row.adaptive_target, -1, 1)) {
    return RowStatus::invalid_probability_filter;
  }
  if (!is_switch(row.p_less) || !within(row.typical_p, 0, 1) || !within(row.epsilon_cutoff, 0, 1) ||
      !within(row.eta_cutoff, 0, 1) || !within(row.top_h, 0, 1) ||
      !within(row.xtc_probability, 0, 1) || !within(row.xtc_threshold, 0, 1)) {
    return RowStatus::invalid_probability_filter;
  }
  const bool good = row.penalty_window >= -1 && is_switch(row.counts_of_prompt) &&
                    row.no_repeat_ngram_size >= 0 && within(row.dry_multiplier, 0, kLargest) &&
                    within(row.dry_base, 1, kLargest) && row.dry_allowed_length > 0 &&
                    row.dry_window >= -1 && row.forced_after >= -1 && row.forced_delay >= 0 &&
                    row.top_p_decay > 0 && row.top_p_decay <= 1 && row.top_p_min > 0 &&
                    row.top_p_min <= 1 && row.top_p_reset_id >= -1;
  return good ? RowStatus::ok : RowStatus::invalid_history_rule;
}

RowStatus check_values(std::span<const float> logits) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    return RowStatus::nan_input;
  }
  if (std::ranges::find(logits, kInfinity) != logits.end()) return RowStatus::infinite_input;
  return RowStatus::ok;
}

RowStatus check_lists(const RowProcessing& row, std::size_t vocab) {
  std::set<RowStatus> faults(row.outside.begin(), row.outside.end());
  constexpr std::int32_t kPlaceholder = -1;
  const SeenHistory seen(row);
  const bool sees_prompt =
      row.repetition_penalty != 1 || (row.counts_of_prompt == 1 && has_penalty(row));
  if (sees_prompt && any_stranger(seen.prompt, vocab, kPlaceholder)) {
    faults.insert(RowStatus::invalid_history);
  }
  if (has_penalty(row)) {
    const bool bad = row.output_counts
                         ? std::ranges::any_of(*row.output_counts, [](auto n) { return n < 0; })
                         : any_stranger(seen.output, vocab, kPlaceholder);
    if (bad) faults.insert(RowStatus::invalid_history);
  }
  if (row.output_length < 0) faults.insert(RowStatus::invalid_history);
  for (const RowProcessing::Bias& bias : row.biases) {
    const bool value_ok = bias.value == -kInfinity || within(bias.value, -kLargest, kLargest);
    if (!value_ok || any_stranger({bias.id}, vocab, 0)) {
      faults.insert(RowStatus::invalid_logit_bias);
    }
  }
  if (any_stranger(row.stop_ids, vocab, 0)) faults.insert(RowStatus::invalid_min_tokens);
  std::int64_t words_length = 0;
  for (const std::int32_t length : row.bad_word_lengths) {
    if (length < 1) faults.insert(RowStatus::invalid_bad_words);
    words_length += length;
  }
  if (words_length != static_cast<std::int64_t>(row.bad_words.size()) ||
      any_stranger(row.bad_words, vocab, 0)) {
    faults.insert(RowStatus::invalid_bad_words);
  }
  const bool reads_allowed = !forced_token(row).has_value();
  if (any_stranger(row.forced_tokens, vocab, 0) ||
      (reads_allowed && any_stranger(row.allowed_ids, vocab, 0))) {
    faults.insert(RowStatus::invalid_allowed_ids);
  }
  for (const RowStatus status :
       {RowStatus::invalid_history, RowStatus::invalid_logit_bias, RowStatus::invalid_min_tokens,
        RowStatus::invalid_bad_words, RowStatus::invalid_allowed_ids}) {
    if (faults.contains(status)) return status;
  }
  return RowStatus::ok;
}

std::map<std::int32_t, std::int32_t> counts_of(const RowProcessing& row, const SeenHistory& seen) {
  std::map<std::int32_t, std::int32_t> counts;
  if (!row.output_counts) {
    for (const std::int32_t id : seen.output) ++counts[id];
    if (row.counts_of_prompt == 0) return counts;
    for (const std::int32_t id : seen.prompt) ++counts[id];
    return counts;
  }
  for (std::size_t id = 0; id < row.output_counts->size(); ++id) {
    if ((*row.output_counts)[id] > 0)
      counts[static_cast<std::int32_t>(id)] = (*row.output_counts)[id];
  }
  return counts;
}

/// Returns dry_multiplier * dry_base^(length - dry_allowed_length), at most 2^64; each product is
/// rounded to float32.
float repetition_penalty_of(const RowProcessing& row, std::size_t length) {
  const auto products = length - static_cast<std::size_t>(row.dry_allowed_length);
  float penalty = row.dry_multiplier;
  for (std::size_t i = 0; i < products && penalty < kLargest; ++i) {
    const float before = penalty;
    penalty = std::min(penalty * row.dry_base, kLargest);
    if (penalty == before) break;  // all further products are the same
  }
  return penalty;
}

/// Applies steps 1 to 3 of logits processing in place. Returns false if a finite logit becomes
/// infinite in these steps.
bool change_values(std::vector<float>& logits, const RowProcessing& row) {
  const SeenHistory seen(row);
  const std::set<std::int32_t> prompt(seen.prompt.begin(), seen.prompt.end());
  const std::map<std::int32_t, std::int32_t> counts = counts_of(row, seen);
  const std::map<std::int32_t, std::size_t> repeated = repetitions(row);
  std::map<std::int32_t, float> biases;
  for (const RowProcessing::Bias& bias : row.biases) biases[bias.id] = bias.value;
  bool finite = true;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const auto id = static_cast<std::int32_t>(token);
    float& x = logits[token];
    if (x == -kInfinity) continue;  // nothing changes it
    const bool is_counted = counts.contains(id);
    if (row.repetition_penalty != 1 && (is_counted || prompt.contains(id))) {
      x = x > 0 ? x / row.repetition_penalty : x * row.repetition_penalty;
    }
    if (is_counted) {
      const float amount = row.frequency_penalty * static_cast<float>(counts.at(id));
      if (row.frequency_penalty != 0) x = x - amount;
      if (row.presence_penalty != 0) x = x - row.presence_penalty;
    }
    finite = finite && std::isfinite(x);
    if (const auto bias = biases.find(id); bias != biases.end()) {
      if (bias->second == -kInfinity) {
        x = -kInfinity;
        continue;
      }
      x = x + bias->second;
      finite = finite && std::isfinite(x);
    }
    if (const auto found = repeated.find(id); found != repeated.end()) {
      x = x - repetition_penalty_of(row, found->second);
    }
  }
  return finite;
}

bool ends_with(const std::vector<std::int32_t>& ids, std::span<const std::int32_t> end) {
  return ids.size() >= end.size() &&
         std::equal(end.begin(), end.end(), ids.end() - static_cast<std::ptrdiff_t>(end.size()));
}

/// Returns each token's distance to the largest logit in steps of top_n_sigma, or -1 for banned
/// tokens.
std::vector<std::int64_t> distances_of(const std::vector<float>& logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<std::int64_t> distances;
  for (const float x : logits) {
    const double steps = std::floor(std::ldexp(largest - static_cast<double>(x), 20));
    distances.push_back(x == -kInfinity ? -1 : std::llrint(std::min(steps, 0x1p31 - 1)));
  }
  return distances;
}

/// Applies step 8 (top_n_sigma) in place, with the integers that define this step.
void keep_top_n_sigma(std::vector<float>& logits, float n) {
  const std::vector<std::int64_t> distances = distances_of(logits);
  Wide tokens = 0, sum = 0, squares = 0;
  for (const std::int64_t q : distances) {
    if (q < 0) continue;
    tokens += 1;
    sum += q;
    squares += Wide{q} * q;
  }
  const auto spread = static_cast<double>(tokens * squares - sum * sum);
  const double most = static_cast<double>(n) * std::sqrt(spread) / static_cast<double>(tokens);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (static_cast<double>(distances[id]) > most) logits[id] = -kInfinity;
  }
}

/// True if float32 rounding may put a token on the other side of the threshold of top_n_sigma; the
/// function computes in real numbers. With u = 2^-24, a sum of N terms, each the result of two more
/// operations, has a relative error of at most g = (N + 2) u / (1 - (N + 2) u) in any order (Higham
/// 2002, 4.2). So the mean and each deviation from the mean are off by g times the largest |x|, and
/// sigma is off by that amount and by g times sigma. Computing the threshold rounds two more times.
/// This function measures distances in steps of 2^-20, and treats all distances from 2^11 on as the
/// same.
bool is_undecided(const std::vector<float>& logits, float n) {
  const long double largest = *std::ranges::max_element(logits);
  long double tokens = 0, sum = 0, squares = 0, size = 0;
  for (const float x : logits) {
    if (x == -kInfinity) continue;
    tokens += 1;
    sum += x;
    size = std::max(size, std::abs(static_cast<long double>(x)));
    if (largest - x >= 0x1p11L) return true;
  }
  const long double mean = sum / tokens;
  for (const float x : logits) {
    if (x != -kInfinity) squares += (x - mean) * (x - mean);
  }
  constexpr long double kUnit = 0x1p-24L;
  const long double terms = (tokens + 2) * kUnit, growth = terms / (1 - terms);
  const long double sigma = std::sqrt(squares / tokens);
  const long double threshold = largest - n * sigma;
  const long double error = n * growth * (sigma + size) +
                            2 * kUnit * (std::abs(largest) + n * sigma) + (n + 1) * 0x1p-20L;
  return std::ranges::any_of(
      logits, [&](float x) { return x != -kInfinity && std::abs(x - threshold) <= error; });
}

/// Returns the tokens that steps 4 to 7 ban.
std::set<std::int32_t> banned_tokens(const RowProcessing& row, std::size_t vocab,
                                     std::span<const std::uint32_t> allowed) {
  std::set<std::int32_t> banned;
  if (row.output_length < row.min_tokens) banned.insert(row.stop_ids.begin(), row.stop_ids.end());
  std::size_t begin = 0;
  for (const std::int32_t length : row.bad_word_lengths) {
    const auto word = std::span(row.bad_words).subspan(begin, static_cast<std::size_t>(length));
    if (ends_with(row.output, word.first(word.size() - 1))) banned.insert(word.back());
    begin += word.size();
  }
  for (const std::int32_t id : ends_of_ngrams(whole_history(row), row.no_repeat_ngram_size)) {
    if (id >= 0 && id < static_cast<std::int64_t>(vocab)) banned.insert(id);
  }
  std::set<std::int32_t> listed(row.allowed_ids.begin(), row.allowed_ids.end());
  if (const std::optional<std::int32_t> forced = forced_token(row)) listed = {*forced};
  for (std::size_t token = 0; token < vocab; ++token) {
    const auto id = static_cast<std::int32_t>(token);
    const bool bit = allowed.empty() || ((allowed[token / 32] >> (token % 32)) & 1U) != 0;
    if (!bit || (!listed.empty() && !listed.contains(id))) banned.insert(id);
  }
  return banned;
}

}  // namespace

bool has_probability_filter(const RowProcessing& row) {
  bool has_filter = false;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  has_filter = has_filter || row.name != (neutral);
#include "fairdraw/processing_parameters.inc"
  return has_filter;
}

std::vector<std::int32_t> whole_history(const RowProcessing& row) {
  std::vector<std::int32_t> ids = row.prompt;
  ids.insert(ids.end(), row.output.begin(), row.output.end());
  return ids;
}

std::vector<std::int32_t> ends_of_ngrams(std::span<const std::int32_t> history, std::int32_t n) {
  std::vector<std::int32_t> ends;
  if (n == 0 || static_cast<std::size_t>(n) > history.size()) return ends;
  const auto prefix = static_cast<std::size_t>(n) - 1;
  const auto last = history.last(prefix);
  if (std::ranges::any_of(last, [](std::int32_t id) { return id < 0; })) return ends;
  for (std::size_t begin = 0; begin + prefix < history.size(); ++begin) {
    if (std::ranges::equal(history.subspan(begin, prefix), last)) {
      ends.push_back(history[begin + prefix]);
    }
  }
  return ends;
}

std::map<std::int32_t, std::size_t> repetitions(const RowProcessing& row) {
  std::map<std::int32_t, std::size_t> longest;
  std::vector<std::int32_t> seen = whole_history(row);
  if (row.dry_window >= 0 && seen.size() > static_cast<std::size_t>(row.dry_window)) {
    seen.erase(seen.begin(), seen.end() - row.dry_window);
  }
  if (row.dry_multiplier == 0 || seen.empty()) return longest;
  const std::set<std::int32_t> breakers(row.dry_breakers.begin(), row.dry_breakers.end());
  const auto last_breaker = std::find_if(seen.rbegin(), seen.rend(),
                                         [&](std::int32_t id) { return breakers.contains(id); });
  const auto most = static_cast<std::size_t>(last_breaker - seen.rbegin());
  // The number of ids before a place that equal the last ids is the number of ids that two
  // histories have in common when they are read backwards.
  for (std::size_t place = 1; place < seen.size(); ++place) {
    const auto before = seen.rend() - static_cast<std::ptrdiff_t>(place);
    const auto ends = std::mismatch(before, seen.rend(), seen.rbegin(), seen.rend(),
                                    [](auto a, auto b) { return a == b && a >= 0; });
    const std::size_t count = std::min(static_cast<std::size_t>(ends.second - seen.rbegin()), most);
    const std::int32_t token = seen[place];
    if (count < static_cast<std::size_t>(row.dry_allowed_length) || breakers.contains(token)) {
      continue;
    }
    longest[token] = std::max(longest[token], count);
  }
  return longest;
}

std::optional<std::int32_t> forced_token(const RowProcessing& row) {
  if (row.forced_tokens.empty()) return {};
  std::vector<std::int32_t> after = row.output;
  if (row.forced_after >= 0) {
    const std::vector<std::int32_t> history = whole_history(row);
    const auto last = std::find(history.rbegin(), history.rend(), row.forced_after);
    if (last == history.rend()) return {};
    after.assign(last.base(), history.end());
  }
  const auto delay = static_cast<std::size_t>(std::max(row.forced_delay, 0));
  if (after.size() < delay || after.size() - delay >= row.forced_tokens.size()) return {};
  const auto waited = std::span(after).first(delay);
  if (std::ranges::find(waited, row.forced_tokens.back()) != waited.end()) return {};
  return row.forced_tokens[after.size() - delay];
}

float decayed_top_p(const RowProcessing& row, float top_p) {
  float now = top_p;
  if (row.top_p_decay == 1 || top_p == 0) return now;
  if (!within(top_p, 0, 1) || check_parameters(row) != RowStatus::ok) return now;
  for (const std::int32_t id : row.output) {
    const bool resets = id >= 0 && id == row.top_p_reset_id;
    now = resets ? top_p : std::max(now * row.top_p_decay, row.top_p_min);
  }
  return now;
}

bool has_history_rule(const RowProcessing& row) {
  bool has_rule = false;
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) has_rule = has_rule || row.name != (neutral);
#include "fairdraw/processing_parameters.inc"
  return has_rule || !row.forced_tokens.empty();
}

RowProcessing processing_of_row(const LogitsProcessing& processing, std::int64_t row,
                                std::size_t vocab) {
  RowProcessing result;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) result.name = processing.name.at(row);
#include "fairdraw/processing_parameters.inc"
  const auto ids = [&](const TokenLists& lists, RowStatus fault) {
    return ids_of_row(lists, row, fault, result.outside);
  };
  result.prompt = ids(processing.prompt, RowStatus::invalid_history);
  result.output = ids(processing.output, RowStatus::invalid_history);
  if (processing.prompt_mask.given()) {
    const std::uint32_t* words =
        processing.prompt_mask.data + row * processing.prompt_mask.row_stride;
    for (std::size_t id = 0; id < vocab; ++id) {
      if (((words[id / 32] >> (id % 32)) & 1U) != 0) {
        result.prompt.push_back(static_cast<std::int32_t>(id));
      }
    }
  }
  if (processing.output_counts.given()) {
    const std::int32_t* counts =
        processing.output_counts.data + row * processing.output_counts.row_stride;
    result.output_counts.emplace(counts, counts + vocab);
  }
  result.output_length = static_cast<std::int32_t>(result.output.size());
  if (processing.output_lengths.given()) {
    result.output_length = processing.output_lengths.data[row];
  }
  const auto bias_ids = ids(processing.bias_ids, RowStatus::invalid_logit_bias);
  for (std::size_t i = 0; i < bias_ids.size(); ++i) {
    const std::int64_t at = processing.bias_ids.begins.data[row] + static_cast<std::int64_t>(i);
    result.biases.push_back({bias_ids[i], processing.bias_values.data[at]});
  }
  result.stop_ids = ids(processing.stop_ids, RowStatus::invalid_min_tokens);
  result.bad_words = ids(processing.bad_words, RowStatus::invalid_bad_words);
  result.bad_word_lengths = ids(processing.bad_word_lengths, RowStatus::invalid_bad_words);
  result.allowed_ids = ids(processing.allowed_ids, RowStatus::invalid_allowed_ids);
  result.forced_tokens = ids(processing.forced_tokens, RowStatus::invalid_allowed_ids);
  result.dry_breakers = ids(processing.dry_breakers, RowStatus::invalid_history);
  return result;
}

ProcessedRow process_row(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowProcessing& processing, const FilterBound* other) {
  if (!allowed.empty() && allowed.size() < (logits.size() + 31) / 32) {
    throw std::invalid_argument("allowed has less than ceil(vocab / 32) words");
  }
  ProcessedRow result;
  result.status = check_parameters(processing);
  if (result.status == RowStatus::ok) result.status = check_values(logits);
  if (result.status == RowStatus::ok) result.status = check_lists(processing, logits.size());
  if (result.status == RowStatus::ok) {
    result.logits.assign(logits.begin(), logits.end());
    if (!change_values(result.logits, processing)) result.status = RowStatus::processing_overflow;
  }
  if (result.status != RowStatus::ok) {
    result.logits.assign(logits.size(), -kInfinity);
    return result;
  }
  for (const std::int32_t id : banned_tokens(processing, logits.size(), allowed)) {
    result.logits[static_cast<std::size_t>(id)] = -kInfinity;
  }
  const bool any = std::ranges::any_of(result.logits, [](float x) { return x != -kInfinity; });
  if (!any) {
    result.status = RowStatus::no_allowed_token;
    return result;
  }
  const float sigmas = processing.top_n_sigma;
  float temperature = 1;
  for (const FilterStep step : filter_steps(processing)) {
    if (step == FilterStep::top_n_sigma && sigmas > 0 && std::isfinite(sigmas)) {
      result.undecided = result.undecided || is_undecided(result.logits, sigmas);
      keep_top_n_sigma(result.logits, sigmas);
    }
    if (step == FilterStep::temperature) temperature = processing.chain_temperature;
    if (other != nullptr && !result.undecided) {
      result.undecided = is_undecided(result.logits, processing, step, temperature, *other);
    }
    apply_step(result.logits, processing, step, temperature);
  }
  return result;
}

IntegerRow integer_model(std::span<const float> logits, std::span<const std::uint32_t> allowed,
                         const RowProcessing& processing, const RowParameters& parameters,
                         TieRule tie_rule, FilterOrder filter_order) {
  // The model determines the status of the parameters first. A row of a single zero can only fail
  // because of its parameters, so the model calls it with such a row.
  const float zero = 0;
  const bool parameters_ok =
      integer_model(std::span(&zero, 1), {}, parameters).status == RowStatus::ok;
  const ProcessedRow processed = process_row(logits, allowed, processing);
  RowParameters now = parameters;
  now.top_p = decayed_top_p(processing, parameters.top_p);
  now.temperature = dynamic_temperature(processed.logits, processing, parameters.temperature);
  IntegerRow row = integer_model(processed.logits, {}, now, tie_rule, filter_order);
  if (parameters_ok) row.status = processed.status;
  return row;
}

}  // namespace fairdraw::reference
