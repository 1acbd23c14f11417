// One call that verifies drafts, with all of its arrays: the request, its response, and the model's
// outcome for each request of the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fairdraw/speculative.h"
#include "harness/run/calls/request.h"
#include "reference/speculation/speculation_model.h"

namespace fairdraw::harness {

/// A form of fairdraw_verification that owns its arrays. All values are exactly representable in
/// dtype.
struct SpeculationRequest {
  DType dtype = DType::float32;
  std::int64_t batch = 0, max_draft = 0, max_depth = 0, vocab = 0;
  bool trees = false;
  std::vector<float> target;                         ///< logits, [rows, vocab]
  std::vector<reference::RowParameters> parameters;  ///< [batch]
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::vector<reference::RowProcessing> processing;  ///< [rows] of the target, or empty
  HistoryArrays history_form;
  std::vector<std::uint32_t> allowed;    ///< [rows, words_for(vocab)] bitmask, or empty
  std::vector<std::int64_t> row_begins;  ///< [batch + 1], or empty
  std::vector<std::uint8_t> active;      ///< [batch], or empty
  bool seed_is_scalar = false;
  std::vector<std::uint64_t> seed, offset;  ///< [batch], or [1]
  std::vector<std::int32_t> draft_tokens;   ///< [places]
  std::vector<std::int32_t> draft_lengths;  ///< [batch], or empty
  std::vector<std::int32_t> parents;        ///< [places], for trees
  DraftLaw draft_law = DraftLaw::none;
  SiblingSampling siblings = SiblingSampling::with_replacement;  ///< for trees
  /// Distribution of the drafts, if they have one: [places, vocab], or [rows, vocab] for trees.
  std::vector<float> draft;
  std::vector<reference::RowParameters> draft_parameters;  ///< [batch], for drafts that are logits
  bool counts = true;  ///< requests all results, not only tokens

  std::int64_t rows() const { return static_cast<std::int64_t>(target.size()) / vocab; }
  std::int64_t places() const { return static_cast<std::int64_t>(draft_tokens.size()); }
  /// Returns the maximum number of drafted tokens on a path; `tokens` has one column more.
  std::int64_t width() const { return trees ? max_depth : max_draft; }
};

struct SpeculationResponse {
  std::string refused, damage;  ///< as in Response
  std::vector<std::int32_t> tokens, nodes, accepted, statuses;

  bool ran() const { return refused.empty() && damage.empty(); }
  std::string trouble() const { return refused.empty() ? damage : "call refused: " + refused; }
};

SpeculationResponse run_speculation(Sampler& sampler, const SpeculationRequest& request);

// --- The model -----------------------------------------------------------------------------------

/// A row of logits or probabilities, with its filter parameters.
struct DistributionRow {
  std::vector<float> values;
  bool from_probs = false;
  std::vector<std::uint32_t> allowed;
  reference::RowParameters parameters;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::optional<reference::RowProcessing> processing = {};  ///< only for logits

  reference::IntegerRow model() const;
  /// Returns the logits that a right sampler filters, in which banned tokens have -inf.
  std::vector<float> processed() const;
};

/// One request that is taken out of a call with drafts. Mutants change it.
struct DraftedTokens {
  RowStatus status = RowStatus::ok;  ///< if inactive or invalid_draft_length, all other fields are
                                     ///< empty
  bool tree = false;
  std::size_t vocab = 0, max_depth = 0;
  std::vector<DistributionRow> target;  ///< [n + 1]
  std::vector<DistributionRow> draft;   ///< [n], for trees [n + 1], or empty
  SiblingSampling siblings = SiblingSampling::with_replacement;  ///< for trees
  std::vector<std::int32_t> drafted, parents;
  std::vector<reference::PositionWords> words;  ///< [n + 1]
};

/// Returns the processing of the row after `prefix`, whose tokens continue the history of `row`.
reference::RowProcessing processing_behind(const reference::RowProcessing& row,
                                           std::span<const std::int32_t> prefix);

DraftedTokens split_request(const SpeculationRequest& request, std::int64_t b);

reference::SpeculationOutcome outcome_of(const DraftedTokens& request);

/// Returns whether the sampler takes requests whose drafts have this kind of distribution.
bool takes_drafts(const SamplerDescription& sampler, DraftLaw distribution);

bool is_greedy(const reference::RowParameters& parameters);

}  // namespace fairdraw::harness
