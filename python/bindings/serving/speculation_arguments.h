// Reads the arguments of speculation (fairdraw/speculative.h, and the chains of
// fairdraw/sampling.h) from fairdraw/speculative.py and fairdraw/sampling.py. Requests and results
// view Python's arrays.
//
// Each class keeps the arrays alive that its `request` and `result` view, and raises an error for a
// wrong argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fairdraw/sampling.h"
#include "fairdraw/speculative.h"
#include "python/bindings/arguments.h"
#include "python/bindings/processing_argument.h"

namespace fairdraw::python {

/// Filters of a draft's or target's distribution, read from a mapping.
struct Distribution {
  Parameter<float> temperature, top_p, min_p;
  Parameter<std::int32_t> top_k;
  LawFilters filters;

  Distribution(const char* name, nb::handle object, const Place& place) {
    const Named given(name, object);
    temperature = temperature_of(given["temperature"], place);
    top_k = top_k_of(given["top_k"], place);
    top_p = probability("top_p", given["top_p"], place);
    min_p = probability("min_p", given["min_p"], place);
    filters = {temperature.value,
               top_k.value,
               top_p.value,
               min_p.value,
               given.as<TieRule>("tie_rule"),
               given.as<FilterOrder>("filter_apply_order")};
    given.expect_all_read();
  }
  // `filters` points into the other members, so that a copy would point into the wrong object.
  Distribution(const Distribution&) = delete;
  Distribution& operator=(const Distribution&) = delete;
};

/// Arguments about the target model.
class Target {
 public:
  explicit Target(const Named& given)
      : rows_(rows_of("logits", given["logits"], given.has("row_begins") ? 2 : 3)),
        place_(place_of(given, rows_.array)),
        distribution_("filters", given["filters"], place_),
        processing_(given["processing"], place_),
        row_begins_("row_begins", given["row_begins"], place_),
        active_("active", given["active"], place_),
        options_(given, 1, place_, false) {
    view.logits = rows_.view;
    view.filters = distribution_.filters;
    view.processing = processing_.view;
    view.batch = given.as<std::int64_t>("batch");
    view.row_begins = row_begins_.view;
    view.active = active_.view;
    view.seed = options_.draw.seed;
    view.offset = options_.draw.offset;
    if (given.has("allowed")) {
      allowed_ = input_array("allowed", given["allowed"], &place_);
      view.allowed = bit_rows<const std::uint32_t>("allowed", allowed_, rows_.view.vocab);
    }
  }

  const Place& place() const { return place_; }
  /// Returns the number of axes of the logits: 2 for packed rows, 3 for equally many rows per
  /// request.
  std::size_t axes() const { return rows_.array.ndim(); }
  TargetRows view;

 private:
  Rows rows_;
  Place place_;
  Distribution distribution_;
  Processing processing_;
  Input<std::int64_t> row_begins_;
  Input<std::uint8_t> active_;
  Options options_;
  InputArray allowed_;
};

/// Arguments about the draft model. Without a distribution (draft_law `none`) all other arguments
/// are ignored.
class Draft {
 public:
  /// `axes` is the number of axes of the rows.
  Draft(const Named& given, std::size_t axes, const Place& place)
      : distribution(given.as<DraftLaw>("draft_law")),
        distribution_("draft_filters", given["draft_filters"], place) {
    const nb::handle rows = given["draft"];
    if (distribution == DraftLaw::none) return;
    rows_ = rows_of(distribution == DraftLaw::probs ? "draft_probs" : "draft_logits", rows, axes,
                    &place);
  }

  void into(AcceptTreeRequest& request) const {
    request.draft_law = distribution;
    if (distribution == DraftLaw::none) return;
    request.draft = rows_.view;
    request.draft_filters = distribution_.filters;
  }
  DraftLaw distribution;

 private:
  Distribution distribution_;
  Rows rows_;
};

/// The arguments of accept_tree, or of accept_chain if `parents` is None.
class DraftedArguments {
 public:
  explicit DraftedArguments(const Named& given);

  const Place& place() const { return target_.place(); }
  bool is_chain;
  AcceptTreeRequest request;
  AcceptTreeResult result;
  AcceptChainRequest chain_request() const {
    return {request.target,    request.max_draft, request.draft_tokens,  request.draft_lengths,
            request.draft_law, request.draft,     request.draft_filters, accept_rule_.value};
  }
  AcceptChainResult chain_result() const {
    return {result.tokens, result.accepted, result.statuses};
  }

 private:
  Target target_;
  Input<std::int32_t> ids_, parents_, lengths_;
  Rules<AcceptRule> accept_rule_;
  Draft draft_;
  Output<std::int32_t> tokens_, nodes_, accepted_;
  Statuses statuses_;
};

/// The arguments of chain_speculative_sampling.
class ChainSamplingArguments {
 public:
  explicit ChainSamplingArguments(const Named& given);

  const Place& place() const { return place_; }
  ChainSpeculativeRequest request;
  ChainSpeculativeResult result;

 private:
  Rows target_, draft_;
  Place place_;
  InputArray ids_;
  std::optional<Options> options_;
  std::optional<Output<std::int32_t>> tokens_, accepted_, emitted_;
  std::optional<Statuses> statuses_;
};

}  // namespace fairdraw::python
