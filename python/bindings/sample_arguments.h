// Reads the arguments of `sample` and related operations into a request and a result, which view
// Python's arrays.
#pragma once

#include <cstdint>
#include <optional>

#include "fairdraw/sample.h"
#include "python/bindings/arguments.h"
#include "python/bindings/processing_argument.h"

namespace fairdraw::python {

/// Keeps the arrays alive that `request` and `result` are views of, and raises an error for a wrong
/// argument. Optional arguments may be None. `tokens` may be None only in log_probabilities.
class SampleArguments {
 public:
  explicit SampleArguments(const Named& given);
  // The views point into the other members, so that a copy would point into the wrong object.
  SampleArguments(const SampleArguments&) = delete;
  SampleArguments& operator=(const SampleArguments&) = delete;

  const Place& place() const { return place_; }
  std::int64_t drawn() const { return drawn_; }  ///< outputs * num_samples

 private:
  void read_reports(std::int64_t outputs);

  Named given_;
  Rows rows_;
  Place place_;
  Options options_;
  Parameter<float> temperature_, top_p_, min_p_, top_n_sigma_;
  Parameter<std::int32_t> top_k_;
  Rules<TieRule> tie_rule_;
  Rules<FilterOrder> filter_order_;
  Processing processing_;
  InputArray allowed_, active_;
  std::int64_t drawn_ = 0;
  OutputArray mask_, probs_, report_rows_;
  std::optional<Named> reports_;

 public:
  // The request is initialised after the members that it views. Its seed is set in the
  // initialisation, because drawing a fresh seed takes long.
  SampleRequest request;
  SampleResult result;
};

}  // namespace fairdraw::python
