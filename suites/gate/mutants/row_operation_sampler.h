// Operations on rows as textbooks have them, by full sorts, in float64 or in float32: the base of
// mutants whose bug is in a softmax, a mask or a renormalisation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/operation_call.h"

namespace fairdraw::suites {

class RowOperationSampler final : public harness::Sampler {
 public:
  /// float64: sums and exponentials of double, results float32, statuses. float32: everything of
  /// float, added up one token after another, results in the dtype of the rows, no statuses.
  enum class Arithmetic { float64, float32 };

  /// One row of a call.
  struct Row {
    harness::OperationKind kind{};
    std::vector<float> values;
    float temperature = 1, top_p = 1, min_p = 0;
    std::int32_t top_k = 0;
    std::int64_t number = 0;  ///< in the call

    std::size_t vocab() const { return values.size(); }
  };
  using Kept = std::vector<std::uint8_t>;  ///< [vocab]

  /// The steps that may be wrong, in the order of a call. Empty: right.
  struct Mutation {
    /// Changes what the call asks for.
    std::function<void(fairdraw_operation&)> call = {};
    /// Changes a row before it is looked at, a good one too.
    std::function<void(Row&)> row = {};
    /// Instead of the exponentials of softmax, [vocab].
    std::function<std::vector<double>(const Row&)> weights = {};
    /// Instead of the sum that they, or what a filter keeps, are divided by.
    std::function<double(std::span<const double> terms, const Row&)> sum = {};
    /// Changes what a filter keeps.
    std::function<void(Kept&, const Row&)> kept = {};
    /// Changes the result.
    std::function<void(std::vector<float>& result, const Row&)> result = {};
    /// Changes what lies in the caller's memory, after the call.
    std::function<void(const fairdraw_operation&)> finish = {};
  };

  RowOperationSampler(Arithmetic arithmetic, Mutation mutation);
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override;
  std::string run_operation(const fairdraw_operation& call) override;

 private:
  std::int32_t status_of(const Row& row) const;
  std::vector<float> compute(const Row& row) const;
  template <class Real>
  std::vector<float> logarithms(const Row& row) const;
  template <class Real>
  std::vector<float> quotients(const Row& row) const;
  template <class Real>
  Kept kept(const Row& row) const;

  Arithmetic arithmetic_;
  Mutation mutation_;
  harness::SamplerDescription description_;
};

using RowOperationMutation = RowOperationSampler::Mutation;

/// Ids of a row, largest value first, lowest id among equals.
std::vector<std::size_t> ids_by_value(std::span<const float> values);

}  // namespace fairdraw::suites
