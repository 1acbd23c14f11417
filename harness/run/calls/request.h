// One call of a sampler, with all of its arrays: the request and its response, with guards around
// both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/log_probabilities.h"
#include "fairdraw/types.h"
#include "harness/contract/call_arrays.h"
#include "harness/contract/sampler.h"
#include "harness/inputs/processing_arrays.h"
#include "reference/integer_model.h"

namespace fairdraw::harness {

enum class RowInput : std::uint32_t { logits = 0, probabilities = 1 };

/// The ways in which keyed words choose tokens, as fairdraw_batch.mark_scheme has them.
enum class MarkScheme : std::uint32_t {
  by_key = FAIRDRAW_MARK_BY_KEY,
  by_key_and_seed = FAIRDRAW_MARK_BY_KEY_AND_SEED,
  green_list = FAIRDRAW_MARK_GREEN_LIST
};

/// A form of fairdraw_batch that owns its arrays. Outputs sample the rows in order, or the rows in
/// `indices` if it is given.
struct Request {
  RowInput input = RowInput::logits;
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t vocab = 0;
  std::vector<float> logits;      ///< [rows, vocab] values that dtype represents exactly
  std::int64_t row_stride = 0;    ///< distance between two rows in elements, or 0 for vocab; gaps
                                  ///< between rows have NaN
  std::int64_t misalignment = 0;  ///< 0 to 63 bytes from a 64-byte boundary to row 0
  std::int64_t gap = 0;           ///< number of values between two rows of masks and probs
  std::vector<reference::RowParameters> parameters;  ///< [rows]
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::vector<reference::RowProcessing> processing;  ///< [rows], or empty
  HistoryArrays history_form;          ///< form in which the histories of `processing` are given
  std::vector<std::uint32_t> allowed;  ///< [rows, words_for(vocab)] bitmask, or empty
  std::vector<std::uint8_t> active;    ///< [rows], or empty
  bool with_indices = false;
  std::vector<std::int32_t> indices;  ///< [outputs], filled only if with_indices is true
  bool seed_is_scalar = false;
  std::vector<std::uint64_t> seed;    ///< [outputs] seeds, or [1] if seed_is_scalar
  std::vector<std::uint64_t> offset;  ///< shape of `seed`
  std::vector<std::uint64_t> words;   ///< [outputs, num_samples] random words, or empty
  std::int32_t num_samples = 1;
  MarkScheme mark_scheme = MarkScheme::by_key;
  std::int32_t mark_window = 0;
  std::vector<std::uint64_t> mark_key;    ///< [rows] keys, or empty: no row is marked
  std::vector<std::int32_t> mark_output;  ///< [rows, size] generated ids, or empty

  std::int64_t outputs() const;
  /// Returns the index of the row of logits of an output; the index may be out of range, because
  /// `indices` may be.
  std::int64_t row_of(std::int64_t output) const;
  const float* row(std::int64_t row) const { return logits.data() + row * vocab; }
  /// Returns whether a row is none of padding.
  bool is_active(std::int64_t row) const {
    return active.empty() || active[static_cast<std::size_t>(row)] != 0;
  }
};

/// The log-probabilities that are requested, as engines report them (fairdraw/log_probabilities.h).
struct WantedReport {
  bool values = false;  ///< true if values and the top n are requested
  bool ranks = false, all = false;
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  RankRule rank_rule = RankRule::position;
  std::int32_t top_n = 0;
};

/// The optional results that are requested besides tokens.
struct WantedResults {
  bool statuses = false, support_size = false, mask = false, probs = false, logprobs = false;
  WantedReport report = {};
};

/// Results of a call. Result arrays that were not requested are empty. All result arrays have
/// kUnwritten patterns before the call, so that a result that is not written cannot pass for an
/// answer. After the call, input arrays are checked for changes.
struct Response {
  std::string refused;  ///< reason why the whole call was refused; empty if it ran
  std::string damage;   ///< a write outside of the results, or how the sampler broke; empty if
                        ///< there was neither
  std::vector<std::int32_t> tokens, statuses, support_size;
  std::vector<float> logprob, logprob_filtered, probs;
  std::vector<std::uint32_t> mask;
  std::vector<float> report_values, report_top_values, report_all;
  std::vector<std::int32_t> report_ranks, report_top_ids;

  bool ran() const { return refused.empty() && damage.empty(); }
  std::string trouble() const { return refused.empty() ? damage : "call refused: " + refused; }
  bool kept(std::int64_t row, std::int64_t vocab, std::int64_t token) const;
  /// Returns whether the row's mask has a bit at or beyond `vocab`.
  bool kept_beyond(std::int64_t row, std::int64_t vocab) const;
};

/// The value of tokens, statuses and sizes before the call.
inline constexpr std::int32_t kUnwritten = INT32_MIN;
/// The value of the mask's words before the call.
inline constexpr std::uint32_t kUnwrittenMask = 0xdeadbeefU;

Response run_request(Sampler& sampler, const Request& request, const WantedResults& wanted);

/// Returns a text, as the reason for a skip, that names an ability which the request needs and the
/// sampler does not declare; empty if there is none.
std::string missing_ability(const SamplerDescription& sampler, const Request& request);

/// Returns `wanted` without those results that the sampler does not report, for logits or for the
/// input of `request`. Draws from probabilities give only tokens and statuses, as in every library.
WantedResults reported(const SamplerDescription& sampler, WantedResults wanted);
WantedResults reported(const SamplerDescription& sampler, const Request& request,
                       WantedResults wanted);

}  // namespace fairdraw::harness
