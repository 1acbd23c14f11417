// The arguments of speculation (fairdraw/speculative.h, and the chains of fairdraw/sampling.h):
// requests and results over arrays of Python's, as fairdraw/speculative.py and fairdraw/sampling.py
// give them.
//
// Each of them keeps the arrays alive that its `request` and `result` are views of, and raises what
// is wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fairdraw/sampling.h"
#include "fairdraw/speculative.h"
#include "python/bindings/arguments.h"
#include "python/bindings/processing_argument.h"

namespace fairdraw::python {

/// Filters of a distribution: (temperature, top_k, top_p, min_p, tie_rule, filter_order).
struct Distribution {
  Parameter<float> temperature, top_p, min_p;
  Parameter<std::int32_t> top_k;
  LawFilters filters;

  Distribution(nb::handle object, const Place& place) {
    const auto parts = nb::cast<nb::tuple>(object);
    temperature = temperature_of(parts[0], place);
    top_k = top_k_of(parts[1], place);
    top_p = probability("top_p", parts[2], place);
    min_p = probability("min_p", parts[3], place);
    filters = {temperature.value,
               top_k.value,
               top_p.value,
               min_p.value,
               nb::cast<TieRule>(parts[4]),
               nb::cast<FilterOrder>(parts[5])};
  }
  // `filters` points into the other members.
  Distribution(const Distribution&) = delete;
  Distribution& operator=(const Distribution&) = delete;
};

/// The target's side of a call: (logits, filters, allowed, processing, batch, row_begins, active,
/// seed, offset, stream).
class Target {
 public:
  explicit Target(nb::handle object)
      : parts_(nb::cast<nb::tuple>(object)),
        rows_(rows_of("logits", parts_[0], nb::object(parts_[5]).is_none() ? 3 : 2)),
        place_(place_of(rows_.array, nb::cast<std::uint64_t>(parts_[9]), nb::none())),
        distribution_(parts_[1], place_),
        processing_(parts_[3], place_),
        row_begins_("row_begins", parts_[5], place_),
        active_("active", parts_[6], place_),
        options_(parts_[7], parts_[8], nb::none(), 1, place_) {
    view.logits = rows_.view;
    view.filters = distribution_.filters;
    view.processing = processing_.view;
    view.batch = nb::cast<std::int64_t>(parts_[4]);
    view.row_begins = row_begins_.view;
    view.active = active_.view;
    view.seed = options_.draw.seed;
    view.offset = options_.draw.offset;
    if (const nb::object allowed = parts_[2]; !allowed.is_none()) {
      allowed_ = input_array("allowed", allowed, &place_);
      view.allowed = bit_rows<const std::uint32_t>("allowed", allowed_, rows_.view.vocab);
    }
  }

  const Place& place() const { return place_; }
  /// Of the logits: packed rows, or as many for each request.
  std::size_t axes() const { return rows_.array.ndim(); }
  TargetRows view;

 private:
  nb::tuple parts_;
  Rows rows_;
  Place place_;
  Distribution distribution_;
  Processing processing_;
  Input<std::int64_t> row_begins_;
  Input<std::uint8_t> active_;
  Options options_;
  InputArray allowed_;
};

/// The draft's side: (distribution, rows, filters); without a distribution the rest is not looked
/// at.
class Draft {
 public:
  /// `axes` of the rows.
  Draft(nb::handle object, std::size_t axes, const Place& place)
      : parts_(nb::cast<nb::tuple>(object)), distribution_(parts_[2], place) {
    distribution = nb::cast<DraftLaw>(parts_[0]);
    if (distribution == DraftLaw::none) return;
    rows_ = rows_of(distribution == DraftLaw::probs ? "draft_probs" : "draft_logits", parts_[1],
                    axes, &place);
  }

  void into(VerifyTreeRequest& request) const {
    request.draft_law = distribution;
    if (distribution == DraftLaw::none) return;
    request.draft = rows_.view;
    request.draft_filters = distribution_.filters;
  }
  DraftLaw distribution = DraftLaw::none;

 private:
  nb::tuple parts_;
  Distribution distribution_;
  Rows rows_;
};

/// What verify_tree takes; and verify_chain, where `parents` is None.
class DraftedArguments {
 public:
  DraftedArguments(nb::handle target, std::int64_t max_draft, std::int64_t max_depth,
                   nb::handle draft_tokens, nb::handle parents, nb::handle draft_lengths,
                   nb::handle draft, SiblingSampling siblings, nb::handle tokens, nb::handle nodes,
                   nb::handle accepted, nb::handle statuses);

  const Place& place() const { return target_.place(); }
  bool is_chain;
  VerifyTreeRequest request;
  VerifyTreeResult result;
  VerifyChainRequest chain_request() const {
    return {request.target,    request.max_draft, request.draft_tokens, request.draft_lengths,
            request.draft_law, request.draft,     request.draft_filters};
  }
  VerifyChainResult chain_result() const {
    return {result.tokens, result.accepted, result.statuses};
  }

 private:
  Target target_;
  Input<std::int32_t> ids_, parents_, lengths_;
  Draft draft_;
  Output<std::int32_t> tokens_, nodes_, accepted_;
  Statuses statuses_;
};

/// What chain_speculative_sampling takes.
class ChainSamplingArguments {
 public:
  ChainSamplingArguments(nb::handle draft_probs, nb::handle draft_tokens, nb::handle target_probs,
                         nb::handle seed, nb::handle offset, nb::handle tokens, nb::handle accepted,
                         nb::handle emitted, nb::handle statuses, std::uint64_t stream,
                         nb::handle workspace);

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
