// Results of whole calls of `sample` on two backends, and the differences between them. The calls
// come from harness/inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/random_calls.h"

namespace fairdraw::suites {

using harness::HostArrays;
using harness::OwnedCall;
using harness::random_call;

/// The results that a call requests. With fewer results, a call takes other paths through the
/// kernels.
struct CallResults {
  bool statuses = true, support_size = true, logprobs = true, mask = true, probs = true;
};
inline constexpr CallResults kEverything{};
inline constexpr CallResults kTokensAndStatuses{true, false, false, false, false};

/// The results of a call. The arrays are filled beforehand with a pattern, so that bytes that must
/// not change are compared too.
struct SampleOutputs {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
  std::vector<std::int32_t> support_size;
  std::vector<float> logprob, logprob_filtered;
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
  std::int64_t mask_stride = 0, probs_stride = 0;

  SampleOutputs(const OwnedCall& call, const CallResults& wanted);
};

/// Returns a SampleResult with its arrays in host or device memory (DeviceArrays, HostArrays).
template <class Arrays>
SampleResult result_in(const OwnedCall& call, SampleOutputs& outputs, Arrays& arrays) {
  SampleResult result;
  const auto view = [&arrays](auto& values) {
    return View(arrays.out(values), static_cast<std::int64_t>(values.size()));
  };
  result.tokens = view(outputs.tokens);
  result.statuses = view(outputs.statuses);
  result.support_size = view(outputs.support_size);
  result.logprob = view(outputs.logprob);
  result.logprob_filtered = view(outputs.logprob_filtered);
  if (!outputs.mask.empty()) {
    result.mask = {arrays.out(outputs.mask), call.rows, outputs.mask_stride};
  }
  if (!outputs.probs.empty()) {
    result.probs = {arrays.out(outputs.probs), call.rows, outputs.probs_stride};
  }
  return result;
}

/// Returns a text with the parameters of a row, so that it can be run again.
std::string describe_row(const OwnedCall& call, std::int64_t row);

struct Difference {
  std::int64_t row;  ///< row of the call to which the output belongs; -1 if its index is out of
                     ///< range
  std::string what;
};

/// Returns at most `max_found` differences of `got` from `expected`, sorted by kind of result.
/// Bytes are compared exactly, and log-probabilities within their bound. Results that are missing
/// on one of the two sides are not compared.
std::vector<Difference> differences(const OwnedCall& call, const SampleOutputs& expected,
                                    const SampleOutputs& got, std::size_t max_found);

}  // namespace fairdraw::suites
