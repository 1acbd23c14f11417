// Textbook operations on rows by a full sort, in float64 or float32. The operations are the base of
// mutants with an error in a softmax, a mask or a renormalisation.
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
  /// The arithmetic of the operations. float64: sums and exponentials are in double, results in
  /// float32, and there are statuses. float32: everything is in float, sums are sequential, results
  /// have the dtype of the rows, and there are no statuses.
  enum class Arithmetic { float64, float32 };

  struct Row {
    harness::OperationKind kind{};
    std::vector<float> values;
    float temperature = 1, top_p = 1, min_p = 0;
    std::int32_t top_k = 0;
    std::int64_t number = 0;  ///< number of the row in the call

    std::size_t vocab() const { return values.size(); }
  };
  using Kept = std::vector<std::uint8_t>;  ///< [vocab]

  /// The steps that a mutant may replace, in the order of a call. A step that is not set is right.
  struct Mutation {
    std::function<void(fairdraw_operation&)> call = {};
    /// Changes a row, valid or invalid, before it is processed.
    std::function<void(Row&)> row = {};
    /// Replaces the exponentials [vocab] of softmax.
    std::function<std::vector<double>(const Row&)> weights = {};
    /// Replaces the sum by which the exponentials, or the kept values, are divided.
    std::function<double(std::span<const double> terms, const Row&)> sum = {};
    /// Changes the set of tokens that a filter keeps.
    std::function<void(Kept&, const Row&)> kept = {};
    std::function<void(std::vector<float>& result, const Row&)> result = {};
    /// Changes the caller's memory after the call.
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

/// Returns the ids of a row by descending value, and equal values by ascending id.
std::vector<std::size_t> ids_by_value(std::span<const float> values);

}  // namespace fairdraw::suites
