// One call of an operation on rows, with all of its arrays: the request and its answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/request.h"

namespace fairdraw::harness {

/// The values of FAIRDRAW_OPERATION_* in contract/operation.h.
enum class OperationKind : std::uint32_t {
  softmax,
  log_softmax,
  top_k_mask_logits,
  min_p_mask_logits,
  top_k_renorm_probs,
  top_p_renorm_probs,
};
const char* to_string(OperationKind kind);
std::vector<std::string> operation_names();
/// Throws UsageError with the closest name if there is no operation of this name.
OperationKind operation_from_name(const std::string& name);

constexpr bool masks_logits(OperationKind kind) {
  return kind == OperationKind::top_k_mask_logits || kind == OperationKind::min_p_mask_logits;
}
constexpr bool takes_probabilities(OperationKind kind) {
  return kind == OperationKind::top_k_renorm_probs || kind == OperationKind::top_p_renorm_probs;
}
/// Returns whether the sampler declares this kind of operation.
bool has_operation(const SamplerDescription& sampler, OperationKind kind);
void declare_operation(SamplerDescription& sampler, OperationKind kind);

/// Returns the dtype of results, which is that of the rows for masked logits and for samplers that
/// keep the dtype.
DType result_dtype(const SamplerDescription& sampler, OperationKind kind, DType dtype);

/// A form of fairdraw_operation that owns its arrays, for the rows of a request.
struct OperationCall {
  OperationKind kind = OperationKind::softmax;
  DType dtype = DType::float32, result_dtype = DType::float32;
  std::int64_t rows = 0, vocab = 0;
  std::vector<float> values;             ///< [rows, vocab] values that dtype represents exactly
  std::int64_t gap = 0, result_gap = 0;  ///< number of values between two rows; NaN in the input
  std::int64_t shift = 0;                ///< number of values from a 64-byte boundary to row 0
  bool parameter_is_scalar = false;      ///< the parameter of row 0 applies to all rows
  std::vector<reference::RowParameters> parameters;  ///< [rows]; only the array of the operation's
                                                     ///< own parameter is used
  bool in_place = false;  ///< the result overwrites the rows, with the same gap
};

struct OperationAnswer {
  std::string refused, damage;  ///< as in Response
  std::vector<float> result;    ///< [rows, vocab] values as the sampler wrote them
  std::vector<std::int32_t> statuses;

  bool ran() const { return refused.empty() && damage.empty(); }
  std::string trouble() const { return refused.empty() ? damage : "call refused: " + refused; }
};

/// Runs the operation. The field for statuses is filled only if the sampler reports statuses.
OperationAnswer run_operation(Sampler& sampler, const OperationCall& asked);

}  // namespace fairdraw::harness
