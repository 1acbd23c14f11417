#include "cpu/logits_processor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace fairdraw::cpu {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

/// Number of counts that are tested together, which saves time because most counts are 0.
constexpr std::size_t kCountsAtOnce = 64;

bool is_allowed(const std::uint32_t* allowed, std::int32_t id) {
  return allowed == nullptr || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
}

bool all_tokens(const RowList& list, std::int64_t vocab) {
  return std::all_of(list.ids, list.ids + list.length,
                     [vocab](std::int32_t id) { return is_token(id, vocab); });
}

/// Row of logits to which apply_filters() applies the filters of steps 8 and 9.
class RowByProbability {
 public:
  RowByProbability(const Passes& passes, float* logits, std::size_t n, FilterMemory& memory)
      : passes_(passes), logits_(logits), n_(n), memory_(memory) {}

  bool has_tokens() const { return largest() != kBanned; }
  double largest_weight() const { return TokenScale(largest(), temperature_).largest_weight(); }
  void set_temperature(float temperature) {
    temperature_ = temperature;
    is_weighed_ = false;
  }

  std::size_t tokens() {
    weigh();
    return memory_.tokens.size();
  }

  ProbabilitySums sums() {
    weigh();
    ProbabilitySums sums;
    for (const WeighedToken& token : memory_.tokens) sums.add(token);
    return sums;
  }

  template <class Order, class Limit>
  std::uint32_t find(const Order& order, PlaceSearch<Limit> search) {
    using Search = PlaceSearch<Limit>;
    weigh();
    memory_.places.clear();
    for (const WeighedToken& token : memory_.tokens) {
      memory_.places.push_back(
          {order.place(token), order.amount(token), token.weighted_distance()});
    }
    for (int digit = 0; digit < Search::kDigits; ++digit) {
      std::array<uint128_t, Search::kBins> amounts{}, distances{};
      // Only the tokens of the bin that was chosen last are in a bin again.
      std::erase_if(memory_.places, [&](const FilterMemory::Place& token) {
        const std::uint32_t bin = search.bin_of(token.place);
        if (bin == Search::kNoBin) return true;
        amounts[bin] += token.amount;
        distances[bin] += token.distance;
        return false;
      });
      search.choose([&amounts](std::uint32_t bin) { return amounts[bin]; },
                    [&distances](std::uint32_t bin) { return distances[bin]; });
    }
    return search.place();
  }

  double farthest(const KeptTokens& kept) {
    weigh();
    double distance = 0.0;
    for (const WeighedToken& token : memory_.tokens) {
      if (kept.keeps(token)) distance = std::max(distance, token.distance);
    }
    return distance;
  }

  template <class Kept>
  void keep(const Kept& kept) {
    weigh();
    for (std::size_t i = 0; i < memory_.ids.size(); ++i) {
      if (!kept.keeps(memory_.tokens[i])) logits_[memory_.ids[i]] = kBanned;
    }
    is_weighed_ = false;
  }

  void replace(const LogitsNearTarget& logits) {
    weigh();
    for (std::size_t i = 0; i < memory_.ids.size(); ++i) {
      logits_[memory_.ids[i]] = logits.of(memory_.tokens[i]);
    }
    is_weighed_ = false;
  }

  void keep_top_n_sigma(float n) {
    const float most = largest();
    SigmaSums sums;
    for (std::size_t i = 0; i < n_; ++i) {
      if (logits_[i] != kBanned) sums.add(most, logits_[i]);
    }
    const double bound = sums.bound(n);
    for (std::size_t i = 0; i < n_; ++i) {
      logits_[i] = steps_below(most, logits_[i]) < bound ? logits_[i] : kBanned;
    }
    is_weighed_ = false;
  }

 private:
  float largest() const { return passes_.scan(logits_, n_, nullptr).max; }

  /// Lists the tokens that are left, unless the list is up to date.
  void weigh() {
    if (is_weighed_) return;
    const TokenScale scale(largest(), temperature_);
    memory_.tokens.clear();
    memory_.ids.clear();
    for (std::size_t i = 0; i < n_; ++i) {
      if (logits_[i] == kBanned) continue;
      memory_.tokens.push_back(scale.weigh(logits_[i]));
      memory_.ids.push_back(i);
    }
    is_weighed_ = true;
  }

  const Passes& passes_;
  float* logits_;
  std::size_t n_;
  FilterMemory& memory_;
  float temperature_ = 1.0F;
  bool is_weighed_ = false;  ///< memory_ lists the tokens that are left
};

}  // namespace

RowStatus LogitsProcessor::prepare(const LogitsProcessing& processing, std::int64_t row,
                                   const float* x, std::size_t n, const TokenRange& range) {
  clear(n);
  x_ = x;
  n_ = static_cast<std::int64_t>(n);
  begin_ = range.begin;
  vocab_ = range.vocab == 0 ? n_ : range.vocab;
  const ProcessingParameters parameters = parameters_of(processing, row);
  top_n_sigma_ = parameters.top_n_sigma;
  filters_ = parameters.filters;
  toss_coins(filters_, output_length(processing, row));
  if (const RowStatus status = tally_histories(processing, row, parameters);
      status != RowStatus::ok) {
    return status;
  }
  apply_penalties(parameters);
  if (const RowStatus status = apply_bias(processing, row); status != RowStatus::ok) return status;
  const History history{list_of(processing.prompt, row), list_of(processing.output, row)};
  penalise_repetitions(history, list_of(processing.dry_breakers, row), parameters.history);
  if (const RowStatus status = ban_stop_ids(processing, row, parameters); status != RowStatus::ok) {
    return status;
  }
  if (const RowStatus status = ban_bad_words(processing, row); status != RowStatus::ok) {
    return status;
  }
  if (parameters.history.no_repeat_ngram_size > 0) {
    ban_repeated_ngrams(history, parameters.history.no_repeat_ngram_size);
  }
  if (const RowStatus status = keep_allowed_ids(processing, row, history, parameters.history);
      status != RowStatus::ok) {
    return status;
  }
  return overflow_ ? RowStatus::processing_overflow : RowStatus::ok;
}

void LogitsProcessor::clear(std::size_t n) {
  for (const Edit& edit : edits_) slot_[static_cast<std::size_t>(edit.id)] = 0;
  edits_.clear();
  if (slot_.size() < n) slot_.resize(n, 0);
  overflow_ = false;
  entropy_share_ = 1.0;
  allowed_ids_ = {};
}

LogitsProcessor::Edit& LogitsProcessor::edit_of(std::int32_t id) {
  std::uint32_t& slot = slot_[static_cast<std::size_t>(id)];
  if (slot == 0) {
    edits_.push_back({id, 0, x_[id], false});
    slot = static_cast<std::uint32_t>(edits_.size());
  }
  return edits_[slot - 1];
}

float LogitsProcessor::value_of(std::int32_t id) const {
  const std::uint32_t slot = slot_[static_cast<std::size_t>(id)];
  return slot == 0 ? x_[id] : edits_[slot - 1].value;
}

void LogitsProcessor::ban(std::int32_t token) {
  if (is_here(token)) edit_of(id_of(token)).value = kBanned;
}

// --- Penalties ---------------------------------------------------------------------------------

RowStatus LogitsProcessor::tally_histories(const LogitsProcessing& processing, std::int64_t row,
                                           const ProcessingParameters& parameters) {
  const RowList whole_output = list_of(processing.output, row);
  const std::int32_t window = parameters.history.penalty_window;
  const RowList prompt = in_window(list_of(processing.prompt, row), window, whole_output.length);
  const RowList output = in_window(whole_output, window, 0);
  if (!prompt.in_buffer || !output.in_buffer || output_length(processing, row) < 0 ||
      !list_of(processing.dry_breakers, row).in_buffer) {
    return RowStatus::invalid_history;
  }
  if (reads_prompt(parameters)) {
    for (std::int32_t i = 0; i < prompt.length; ++i) {
      if (!is_history_id(prompt.ids[i], vocab_)) return RowStatus::invalid_history;
      if (is_here(prompt.ids[i])) {
        edit_of(id_of(prompt.ids[i])).count += parameters.history.counts_of_prompt;
      }
    }
    const auto& mask = processing.prompt_mask;
    if (mask.given()) tally_mask(mask.data + row * mask.row_stride);
  }
  if (!reads_output(parameters)) return RowStatus::ok;
  const TokenCounts& counts = processing.output_counts;
  if (counts.given()) {
    return tally_counts(counts.data + row * counts.row_stride) ? RowStatus::ok
                                                               : RowStatus::invalid_history;
  }
  for (std::int32_t i = 0; i < output.length; ++i) {
    if (!is_history_id(output.ids[i], vocab_)) return RowStatus::invalid_history;
    if (is_here(output.ids[i])) ++edit_of(id_of(output.ids[i])).count;
  }
  return RowStatus::ok;
}

/// Returns false if any of the counts is negative.
bool LogitsProcessor::tally_counts(const std::int32_t* counts) {
  const auto n = static_cast<std::size_t>(n_);
  for (std::size_t begin = 0; begin < n; begin += kCountsAtOnce) {
    const std::size_t end = std::min(n, begin + kCountsAtOnce);
    std::uint32_t any = 0;
    for (std::size_t i = begin; i < end; ++i) any |= static_cast<std::uint32_t>(counts[i]);
    if (any == 0) continue;
    if ((any >> 31) != 0) return false;  // a sign bit
    for (std::size_t i = begin; i < end; ++i) {
      if (counts[i] != 0) edit_of(static_cast<std::int32_t>(i)).count = counts[i];
    }
  }
  return true;
}

void LogitsProcessor::tally_mask(const std::uint32_t* words) {
  for (std::int64_t first = 0; first < n_; first += 32) {
    std::uint32_t word = words[first / 32];
    // Clears the bits beyond the end of the row.
    if (n_ - first < 32) word &= (1U << (n_ - first)) - 1U;
    for (; word != 0; word &= word - 1U) {
      edit_of(static_cast<std::int32_t>(first) + std::countr_zero(word));
    }
  }
}

/// Applies the penalties. Precondition: all edits so far belong to tokens of the prompt or the
/// output.
void LogitsProcessor::apply_penalties(const ProcessingParameters& parameters) {
  for (Edit& edit : edits_) {
    const float before = edit.value;
    edit.value = penalised(before, edit.count, parameters);
    if (overflowed(before, edit.value)) overflow_ = true;
  }
}

// --- Bias and bans -----------------------------------------------------------------------------

RowStatus LogitsProcessor::apply_bias(const LogitsProcessing& processing, std::int64_t row) {
  const RowList ids = list_of(processing.bias_ids, row);
  if (!ids.in_buffer || !all_tokens(ids, vocab_)) return RowStatus::invalid_logit_bias;
  if (ids.length == 0) return RowStatus::ok;
  const float* values = processing.bias_values.data + ids.begin;
  if (!std::all_of(values, values + ids.length, is_bias)) return RowStatus::invalid_logit_bias;
  for (std::int32_t i = ids.length - 1; i >= 0; --i) {  // if several entries have the same id, the
                                                        // last entry is used
    if (!is_here(ids.ids[i])) continue;
    Edit& edit = edit_of(id_of(ids.ids[i]));
    if (edit.has_bias) continue;
    edit.has_bias = true;
    const float before = edit.value;
    edit.value = is_ban(values[i]) ? kBanned : biased(before, values[i]);
    if (!is_ban(values[i]) && overflowed(before, edit.value)) overflow_ = true;
  }
  return RowStatus::ok;
}

/// Subtracts the penalty of repetitions once from each token, at the last place that asks for it.
void LogitsProcessor::penalise_repetitions(const History& history, const RowList& breakers,
                                           const HistoryRules& rules) {
  if (rules.dry_multiplier == 0.0F) return;
  const std::int64_t end = history.length();
  const std::int64_t first =
      rules.dry_window < 0 ? 0 : std::max(end - rules.dry_window, std::int64_t{0});
  const RepetitionPenalty penalty(rules);
  const std::int64_t most = penalty.longest(end);
  std::int64_t limit = 0;  // ids after the last breaker
  while (limit < most && limit < end - first && !breakers.has(history.at(end - 1 - limit))) ++limit;
  if (limit < rules.dry_allowed_length) return;
  repeated_.clear();
  for (std::int64_t place = first + 1; place < end; ++place) {
    const std::int64_t count = history.repeated_before(place, first, limit);
    const std::int32_t token = history.at(place);
    if (count < rules.dry_allowed_length || !is_here(token) || breakers.has(token)) continue;
    repeated_.push_back({id_of(token), static_cast<std::int32_t>(count)});
  }
  std::sort(repeated_.begin(), repeated_.end());
  for (std::size_t i = 0; i < repeated_.size(); ++i) {
    const auto [id, count] = repeated_[i];
    if (i + 1 < repeated_.size() && repeated_[i + 1].first == id) continue;  // a longer one follows
    Edit& edit = edit_of(id);
    edit.value = rounded::subtract(edit.value, penalty.of(count));
  }
}

RowStatus LogitsProcessor::ban_stop_ids(const LogitsProcessing& processing, std::int64_t row,
                                        const ProcessingParameters& parameters) {
  const RowList stops = list_of(processing.stop_ids, row);
  if (!stops.in_buffer || !all_tokens(stops, vocab_)) return RowStatus::invalid_min_tokens;
  if (output_length(processing, row) >= parameters.min_tokens) return RowStatus::ok;
  for (std::int32_t i = 0; i < stops.length; ++i) ban(stops.ids[i]);
  return RowStatus::ok;
}

RowStatus LogitsProcessor::ban_bad_words(const LogitsProcessing& processing, std::int64_t row) {
  const RowList ids = list_of(processing.bad_words, row);
  const RowList lengths = list_of(processing.bad_word_lengths, row);
  if (!ids.in_buffer || !lengths.in_buffer || !all_tokens(ids, vocab_)) {
    return RowStatus::invalid_bad_words;
  }
  std::int64_t sum = 0;
  for (std::int32_t i = 0; i < lengths.length; ++i) {
    if (lengths.ids[i] < 1) return RowStatus::invalid_bad_words;
    sum += lengths.ids[i];
  }
  if (sum != ids.length) return RowStatus::invalid_bad_words;
  const RowList output = list_of(processing.output, row);
  const std::int32_t* word = ids.ids;
  for (std::int32_t i = 0; i < lengths.length; ++i) {
    const std::int32_t length = lengths.ids[i];
    if (completes_word(word, length, output.ids, output.length)) ban(word[length - 1]);
    word += length;
  }
  return RowStatus::ok;
}

void LogitsProcessor::ban_repeated_ngrams(const History& history, std::int32_t n) {
  for (std::int64_t place = 0; place < history.length(); ++place) {
    if (history.ends_with_ids_before(place, n)) ban(history.at(place));
  }
}

RowStatus LogitsProcessor::keep_allowed_ids(const LogitsProcessing& processing, std::int64_t row,
                                            const History& history, const HistoryRules& rules) {
  allowed_ids_ = list_of(processing.allowed_ids, row);
  const RowList forced = list_of(processing.forced_tokens, row);
  if (!allowed_ids_.in_buffer || !forced.in_buffer || !all_tokens(forced, vocab_)) {
    return RowStatus::invalid_allowed_ids;
  }
  if (const RowList now = forced_now(history, rules, forced); now.length > 0) allowed_ids_ = now;
  return all_tokens(allowed_ids_, vocab_) ? RowStatus::ok : RowStatus::invalid_allowed_ids;
}

/// Returns the list with the token that is forced, or an empty list.
RowList LogitsProcessor::forced_now(const History& history, const HistoryRules& rules,
                                    const RowList& forced) {
  if (forced.length == 0) return {};
  std::int64_t first = history.prompt.length;
  if (rules.forced_after >= 0) {
    for (first = history.length(); first > 0; --first) {
      if (history.at(first - 1) == rules.forced_after) break;
    }
    if (first == 0) return {};
  }
  const std::int32_t entry = forced_entry(rules, forced, history.length() - first);
  if (entry < 0) return {};
  for (std::int64_t place = first; place < first + rules.forced_delay; ++place) {
    if (history.at(place) == forced.ids[forced.length - 1]) return {};
  }
  return {forced.ids + entry, forced.begin + entry, 1, true};
}

// --- The row -----------------------------------------------------------------------------------

RowScan LogitsProcessor::write_edits(const Passes& passes, const float* x, std::size_t n,
                                     const std::uint32_t* allowed, float* out) {
  if (allowed_ids_.length > 0) {
    const RowScan found = passes.scan(x, n, nullptr);
    const auto kept = static_cast<std::size_t>(allowed_ids_.length);
    kept_.resize(kept);
    for (std::size_t i = 0; i < kept; ++i) {
      const std::int32_t token = allowed_ids_.ids[i];
      kept_[i] = is_here(token) ? value_of(id_of(token)) : kBanned;
    }
    std::fill_n(out, n, kBanned);
    for (std::size_t i = 0; i < kept; ++i) {
      const std::int32_t token = allowed_ids_.ids[i];
      if (is_here(token) && is_allowed(allowed, id_of(token))) out[id_of(token)] = kept_[i];
    }
    return found;
  }
  const RowScan found = passes.copy_allowed(x, n, allowed, kBanned, out);
  for (const Edit& edit : edits_) {
    if (is_allowed(allowed, edit.id)) out[edit.id] = edit.value;
  }
  return found;
}

RowScan LogitsProcessor::write(const Passes& passes, const float* x, std::size_t n,
                               const std::uint32_t* allowed, float* out) {
  const RowScan found = write_edits(passes, x, n, allowed, out);
  const bool is_good = !found.has_nan && found.max <= std::numeric_limits<float>::max();
  if (is_good && (top_n_sigma_is_on(top_n_sigma_) || filters_.are_on())) {
    RowByProbability row(passes, out, n, filter_memory_);
    if (row.has_tokens()) entropy_share_ = apply_filters(filters_, top_n_sigma_, row);
  }
  return found;
}

}  // namespace fairdraw::cpu
