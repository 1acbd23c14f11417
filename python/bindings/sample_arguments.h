// The arguments of `sample` and of its relatives: a request and a result over arrays of Python's.
#pragma once

#include <cstdint>
#include <optional>

#include "fairdraw/sample.h"
#include "python/bindings/arguments.h"
#include "python/bindings/processing_argument.h"

namespace fairdraw::python {

/// Keeps the arrays alive that `request` and `result` are views of. Raises what is wrong with them.
/// All of them may be None where they are optional; `tokens` of log_probabilities alone.
class SampleArguments {
 public:
  explicit SampleArguments(const Named& given);
  // The views point into the other members.
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
  Processing processing_;
  InputArray allowed_, active_;
  std::int64_t drawn_ = 0;
  OutputArray mask_, probs_, report_rows_;
  std::optional<Named> reports_;

 public:
  SampleRequest request;  // after what it is made of, because a seed of its own takes long
  SampleResult result;
};

}  // namespace fairdraw::python
