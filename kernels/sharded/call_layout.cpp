#include "sharded/call_layout.h"

#include <algorithm>
#include <string>

#include "common/arguments.h"
#include "common/parameters.h"
#include "common/processing_rules.h"
#include "common/top_n_sigma.h"

namespace fairdraw::sharded {
namespace {

/// Limits for the number of candidates that a shard sends, which suffice for the usual top_k and
/// for most nuclei. With these limits, two shards with a vocabulary of 128256 tokens exchange 6.8
/// KB per row. If there are more shards, each of them sends fewer candidates.
constexpr std::int64_t kCandidatesOfAll = 512;
constexpr std::int64_t kFewestCandidates = 64;
constexpr std::int64_t kMaxCandidates = 256;

/// Checks that a call on probabilities requests only results that the operations of sampling.h
/// support.
Error check_input(const ShardedRequest& request, const SampleResult& result) {
  if (static_cast<std::uint32_t>(request.input) > 1) {
    return out_of_range("input", std::to_string(static_cast<std::uint32_t>(request.input)),
                        "0 (logits) or 1 (probs)");
  }
  if (request.input == TileInput::logits) return {};
  const auto not_there = [](const std::string& field, const char* allowed) {
    return Error{ErrorCode::unsupported,
                 field + " is given; allowed: " + allowed + ", of rows of probabilities"};
  };
  const PerRequest<float>& temperature = request.rows.temperature;
  if (temperature.is_array()) return not_there("an array of temperatures", "1");
  if (temperature.scalar != 1.0F) {
    return {ErrorCode::unsupported, "temperature is " + std::to_string(temperature.scalar) +
                                        "; allowed: 1, of rows of probabilities"};
  }
  if (request.rows.processing.given()) return not_there("processing", "none");
  if (result.logprob.given()) return not_there("logprob", "none");
  if (result.logprob_filtered.given()) return not_there("logprob_filtered", "none");
  if (result.logprobs.given()) return not_there("logprobs", "none");
  return {};
}

/// Returns whether the call requests survivors or whole rows of log-probabilities, but no data
/// about tokens.
bool wants_columns_alone(const SampleResult& result) {
  const LogprobsResult& reports = result.logprobs;
  const bool of_tokens = result.tokens.given() || result.logprob.given() ||
                         result.logprob_filtered.given() || reports.values.given() ||
                         reports.ranks.given();
  return !of_tokens && (result.mask.given() || result.probs.given() || reports.all.given());
}

/// Returns whether the call has any row that is filtered. An array that cannot be read here is
/// assumed to contain any value.
bool any_filtered(const SampleRequest& request, const CallRules& rules, ArraysLie arrays) {
  const bool by_row = request.temperature.is_array() || request.top_k.is_array() ||
                      request.top_p.is_array() || request.min_p.is_array() ||
                      decays(request.processing);
  if (by_row && arrays == ArraysLie::on_device) return true;
  const std::int64_t rows =
      by_row ? request.logits.rows : std::min<std::int64_t>(request.logits.rows, 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const RowParameters parameters{request.temperature.at(row), request.top_k.at(row),
                                   top_p_now(request.processing, row, request.top_p.at(row)),
                                   request.min_p.at(row)};
    if (check(parameters) == RowStatus::ok && rules.filters(parameters)) return true;
  }
  return false;
}

/// Returns whether attempts may decide a row whose threshold is unknown; the result is false if the
/// call's results need the threshold. Arrays of parameters are assumed to contain any value.
bool may_be_wide(const ShardedRequest& request, const SampleResult& result,
                 const CallRules& rules) {
  const SampleRequest& rows = request.rows;
  const LogprobsResult& reports = result.logprobs;
  const bool wants_threshold = result.mask.given() || result.probs.given() ||
                               result.support_size.given() || result.logprob_filtered.given() ||
                               (reports.given() && !is_raw(reports.mode));
  const bool without_top_k =
      rows.top_k.is_array() || !top_k_is_on(rows.top_k.scalar, rules.partition.vocab());
  const bool without_min_p = rows.min_p.is_array() || !(rows.min_p.scalar > 0.0F);
  const bool with_top_p =
      rows.top_p.is_array() || rows.top_p.scalar < 1.0F || decays(rows.processing);
  return !wants_threshold && !request.words.given() && without_top_k && without_min_p && with_top_p;
}

Error check_boundaries(const ShardedRequest& request) {
  const View<const std::int64_t>& boundaries = request.boundaries;
  if (!boundaries.given()) return out_of_range("boundaries", "null", "an array");
  if (boundaries.size < 2 || boundaries.size > kMaxShards + 1) {
    return out_of_range("length of boundaries", std::to_string(boundaries.size),
                        "2 to " + std::to_string(kMaxShards + 1) + " (shards + 1)");
  }
  const std::int64_t shards = boundaries.size - 1;
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= shards; ++i) {
    const std::int64_t boundary = boundaries.data[i];
    const bool right = i == 0 ? boundary == 0 : boundary >= before && boundary <= kMaxVocab;
    if (!right) {
      return out_of_range(
          "boundaries[" + std::to_string(i) + "]", std::to_string(boundary),
          i == 0 ? "0"
                 : std::to_string(before) + " (the one before) to " + std::to_string(kMaxVocab));
    }
    before = boundary;
  }
  if (before == 0) {
    return out_of_range("boundaries[" + std::to_string(shards) + "]", "0",
                        "1 to " + std::to_string(kMaxVocab) + ": the vocabulary");
  }
  if (request.shard < 0 || request.shard >= shards) {
    return out_of_range("shard", std::to_string(request.shard),
                        "0 to " + std::to_string(shards - 1));
  }
  const std::int64_t columns = boundaries.data[request.shard + 1] - boundaries.data[request.shard];
  if (request.rows.logits.vocab == columns) return {};
  return out_of_range(
      "logits.vocab", std::to_string(request.rows.logits.vocab),
      std::to_string(columns) + ", the columns of shard " + std::to_string(request.shard));
}

/// Gives a matrix without columns the stride of a single column, so that the other checks apply to
/// it.
template <class Rows>
void widen(Rows& rows) {
  rows.row_stride = std::max<std::int64_t>(rows.row_stride, 1);
}

Error one_for_the_call(const char* rule) {
  return {ErrorCode::unsupported, std::string(rule) +
                                      " is an array; allowed: one value, of a "
                                      "split vocabulary"};
}

/// Returns the number of candidates that each shard sends for filtered rows.
std::int64_t candidates_of(const Partition& partition) {
  return std::clamp(kCandidatesOfAll / partition.shards(), kFewestCandidates, kMaxCandidates);
}

}  // namespace

Error check_row_filters(const SampleRequest& rows, bool arrays_are_readable) {
  const auto check_off = [&](const char* name, const auto& parameter, const auto& is_on) -> Error {
    const bool is_array = parameter.is_array();
    bool on = is_array ? !arrays_are_readable : is_on(parameter.scalar);
    for (std::int64_t row = 0; is_array && !on && row < rows.logits.rows; ++row) {
      // The parameters of a row that is not active have no meaning.
      const bool is_active = !rows.active.given() || rows.active.data[row] != 0;
      on = is_active && is_on(parameter.at(row));
    }
    if (!on) return {};
    return {ErrorCode::unsupported, std::string(name) + " is " +
                                        (arrays_are_readable ? "on" : "on, or an array") +
                                        "; allowed: off, of a split vocabulary: no rank has the "
                                        "whole row"};
  };
  const LogitsProcessing& processing = rows.processing;
  if (Error e = check_off("top_n_sigma", processing.top_n_sigma, top_n_sigma_is_on)) return e;
  const auto is_not = [](auto neutral) {
    return [neutral](decltype(neutral) x) { return x != neutral; };
  };
  if (Error e = check_off("filter_chain", processing.filter_chain, is_not(std::uint64_t{0}))) {
    return e;
  }
  if (Error e = check_off("dynatemp_range", processing.dynatemp_range, is_not(0.0F))) return e;
  if (Error e = check_off("typical_p", processing.typical_p, is_not(1.0F))) return e;
  if (Error e = check_off("epsilon_cutoff", processing.epsilon_cutoff, is_not(0.0F))) return e;
  if (Error e = check_off("eta_cutoff", processing.eta_cutoff, is_not(0.0F))) return e;
  if (Error e = check_off("p_less", processing.p_less, is_not(0))) return e;
  if (Error e = check_off("top_h", processing.top_h, is_not(1.0F))) return e;
  return check_off("xtc_probability", processing.xtc_probability, is_not(0.0F));
}

Error check_sharded(const ShardedRequest& request, const SampleResult& result) {
  if (Error error = check_boundaries(request)) return error;
  SampleRequest rows = request.rows;
  SampleResult results = result;
  if (rows.logits.vocab == 0) {
    static constexpr float kNoColumns = 0;
    rows.logits.vocab = 1;
    if (rows.logits.data == nullptr) rows.logits.data = &kNoColumns;
    widen(rows.logits);
    widen(rows.allowed);
    widen(rows.processing.prompt_mask);
    widen(rows.processing.output_counts);
    widen(results.mask);
    widen(results.probs);
    widen(results.logprobs.all);
  }
  if (Error error = check_request(rows, "logits")) return error;
  if (rows.tie_rule.is_array()) return one_for_the_call("tie_rule");
  if (rows.filter_order.is_array()) return one_for_the_call("filter_order");
  if (Error error = check_input(request, result)) return error;
  const std::int64_t tokens = outputs_of(rows) * rows.num_samples;
  if (request.words.given() && request.words.size != tokens) {
    return out_of_range("length of words", std::to_string(request.words.size),
                        std::to_string(tokens) + " (outputs * num_samples)");
  }
  if (wants_columns_alone(result)) {
    static std::int32_t no_token;
    results.tokens = {&no_token, tokens};
  }
  if (Error error = check_result(rows, results, /*wants_tokens=*/true)) return error;
  return check_logprobs(rows, results.logprobs);
}

void use(CpuTarget target, CallRules& rules) {
  rules.target = target == CpuTarget::best ? best_target() : target;
  rules.tile_passes = &cpu::tile_passes_for(rules.target);
}

CallRules rules_of(const ShardedRequest& request, const SampleResult& result, ArraysLie arrays) {
  const SampleRequest& rows = request.rows;
  const LogprobsResult& reports = result.logprobs;
  CallRules rules;
  rules.partition =
      Partition({request.boundaries.data, request.boundaries.data + request.boundaries.size});
  rules.from_probs = request.input == TileInput::probs;
  rules.top_k_1_keeps_ties = request.top_k_1_keeps_ties;
  rules.tie_rule = rows.tie_rule.scalar;
  rules.filter_order = rows.filter_order.scalar;
  rules.ranks = reports.ranks.given();
  rules.mode = reports.mode;
  rules.rank_rule = reports.rank_rule;
  rules.processed = rows.allowed.given() || rows.processing.given();

  const bool raw = reports.given() && is_raw(reports.mode);
  const bool raw_differs = raw && rules.processed;
  const std::int64_t candidates =
      any_filtered(rows, rules, arrays) ? candidates_of(rules.partition) : 0;
  const std::int64_t top_n = reports.given() ? reports.top_n : 0;
  SummaryLayout& layout = rules.layout;
  layout.cut_values = static_cast<std::size_t>(rules.partition.max_cut_values());
  layout.candidates =
      static_cast<std::size_t>(raw_differs ? candidates : std::max(candidates, top_n));
  layout.reported = static_cast<std::size_t>(top_n);
  if (candidates > 0) {
    layout.row_columns = static_cast<std::size_t>(rules.partition.max_columns());
    if (may_be_wide(request, result, rules)) layout.attempts = kRecords;
  }
  layout.raw_bits = raw_differs;
  layout.raw_summary = raw_differs || (raw && reports.mode == LogprobsMode::raw_logprobs);
  layout.raw_cut_values = raw_differs;
  layout.raw_candidates = static_cast<std::size_t>(raw_differs ? top_n : 0);
  return rules;
}

std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays) {
  const SampleRequest& rows = request.rows;
  const LogprobsResult& reports = result.logprobs;
  Fingerprint hash(arrays);
  for (std::int64_t i = 0; i < request.boundaries.size; ++i) hash.add(request.boundaries.data[i]);
  hash.add(request.input);
  hash.add(request.top_k_1_keeps_ties);
  hash.add(request.words);
  hash.add(rows.logits.rows);
  hash.add(rows.logits.dtype);
  hash.add(rows.temperature);
  hash.add(rows.top_k);
  hash.add(rows.top_p);
  hash.add(rows.min_p);
  hash.add(rows.seed);
  hash.add(rows.offset);
  hash.add(rows.tie_rule);
  hash.add(rows.filter_order);
  hash.add(rows.allowed.given());
  hash.add(rows.active);
  hash.add(rows.indices);
  hash.add(rows.num_samples);
  hash.add(rows.purpose);
  hash.add(rows.processing);
  hash.add(reports.given());
  hash.add(reports.mode);
  hash.add(reports.rank_rule);
  hash.add(reports.top_n);
  hash.add(reports.ranks.given());
  hash.add(rules_of(request, result, arrays).layout.attempts);
  return hash.value();
}

}  // namespace fairdraw::sharded
