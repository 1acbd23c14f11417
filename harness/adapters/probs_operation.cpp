#include "harness/adapters/probs_operation.h"

#include <algorithm>

namespace fairdraw::harness {
namespace {

// True if any of the values is not the default `off`; NaN is never the default.
template <class T>
bool any_is_set(const T* values, std::int64_t rows, T off) {
  return std::any_of(values, values + rows, [off](T value) { return !(value == off); });
}

}  // namespace

ProbsOperation probs_operation(const fairdraw_batch& batch) {
  ProbsOperation operation;
  operation.top_k = any_is_set(batch.top_k, batch.rows, 0);
  operation.top_p = any_is_set(batch.top_p, batch.rows, 1.0F);
  operation.min_p = any_is_set(batch.min_p, batch.rows, 0.0F);
  const auto refuse_if = [&operation](bool asked, const char* what) {
    if (asked) operation.refused = std::string("no operation on probabilities ") + what;
  };
  refuse_if(operation.min_p && (operation.top_k || operation.top_p),
            "combines min_p with top_k or top_p");
  refuse_if(batch.tie_rule != 0, "has the tie rule lowest_id");
  refuse_if(batch.allowed != nullptr, "takes a mask of allowed ids");
  refuse_if(batch.active != nullptr, "takes inactive rows");
  refuse_if(batch.mask != nullptr || batch.probs != nullptr || batch.support_size != nullptr ||
                batch.logprob != nullptr || batch.logprob_filtered != nullptr,
            "reports more than tokens and statuses");
  return operation;
}

}  // namespace fairdraw::harness
