// The arguments of `sample` and of its relatives: a request and a result over arrays of Python's.
#pragma once

#include <cstdint>
#include <optional>

#include "fairdraw/sample.h"
#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// What is read. All handles may be None where the argument is optional.
struct SampleInputs {
  nb::handle logits, temperature, top_k, top_p, min_p, seed, offset, indices;
  std::int32_t num_samples = 1;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder order = FilterOrder::top_k_first;
  Purpose purpose = Purpose::draw;
  nb::handle allowed, active;
  std::uint64_t stream = 0;
  nb::handle workspace;
};

/// What is written: `tokens` may be None of log_probabilities alone.
struct SampleOutputs {
  nb::handle tokens, statuses, support_size, logprob, logprob_filtered, mask, probs;
  nb::handle reports;  ///< what Reports reads, or None
};

/// Log-probabilities in the forms of engines: (mode, rank rule, top n, values, ranks, ids and
/// values of the top, whole rows); each of the arrays may be None.
class Reports {
 public:
  Reports(nb::handle object, std::int64_t outputs, std::int64_t tokens, const RowsView& rows,
          const Place& place) {
    if (object.is_none()) return;
    const auto parts = nb::cast<nb::tuple>(object);
    view.mode = nb::cast<LogprobsMode>(parts[0]);
    view.rank_rule = nb::cast<RankRule>(parts[1]);
    view.top_n = nb::cast<std::int32_t>(parts[2]);
    values_.emplace("values", parts[3], tokens, place);
    ranks_.emplace("ranks", parts[4], tokens, place);
    top_ids_.emplace("top_ids", parts[5], outputs * view.top_n, place);
    top_values_.emplace("top_values", parts[6], outputs * view.top_n, place);
    view.values = values_->view;
    view.ranks = ranks_->view;
    view.top_ids = top_ids_->view;
    view.top_values = top_values_->view;
    if (!nb::object(parts[7]).is_none()) {
      view.all = float_rows("all", parts[7], rows, place, all_);
    }
  }
  LogprobsResult view;

 private:
  std::optional<Output<float>> values_, top_values_;
  std::optional<Output<std::int32_t>> ranks_, top_ids_;
  OutputArray all_;
};

/// Keeps the arrays alive that `request` and `result` are views of. Raises what is wrong with them.
class SampleArguments {
 public:
  SampleArguments(const SampleInputs& inputs, const SampleOutputs& outputs);
  // The views point into the other members.
  SampleArguments(const SampleArguments&) = delete;
  SampleArguments& operator=(const SampleArguments&) = delete;

  const Place& place() const { return place_; }
  std::int64_t drawn() const { return drawn_; }  ///< outputs * num_samples
  SampleRequest request;
  SampleResult result;

 private:
  Rows rows_;
  Place place_;
  Options options_;
  Parameter<float> temperature_, top_p_, min_p_;
  Parameter<std::int32_t> top_k_;
  InputArray allowed_, active_;
  std::int64_t drawn_ = 0;
  std::optional<Output<std::int32_t>> tokens_, support_;
  std::optional<Statuses> statuses_;
  std::optional<Output<float>> logprob_, filtered_;
  OutputArray mask_, probs_;
  std::optional<Reports> reports_;
};

}  // namespace fairdraw::python
