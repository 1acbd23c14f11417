// Implementation of chain_speculative_sampling on the GPU (fairdraw/cuda_speculative.h): the checks
// of arguments, and the launches of the kernels.
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/speculation/drafted_rows.h"
#include "fairdraw/cuda_speculative.h"
#include "serving/rules/speculative_arguments.h"

namespace fairdraw::cuda {
namespace {

Error check_pointers(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result,
                     const Execution& execution, std::int64_t rows) {
  const View<const std::int32_t>& drafted = request.draft_tokens;
  DevicePointers pointers;
  if (request.num_draft_tokens > 0) pointers.check("draft_probs", request.draft_probs);
  pointers.check_needed("draft_tokens", drafted.data, drafted.size, alignof(std::int32_t));
  pointers.check("target_probs", request.target_probs);
  pointers.check("seed", request.seed);
  pointers.check("offset", request.offset);
  pointers.check_needed("tokens", result.tokens.data, result.tokens.size, alignof(std::int32_t));
  pointers.check("accepted", result.accepted);
  pointers.check("emitted", result.emitted);
  pointers.check("statuses", result.statuses);
  pointers.check_workspace(execution, workspace_bytes(rows), rows);
  return pointers.error();
}

}  // namespace

Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result, const Execution& execution) {
  if (Error error = check_chain(request, result)) return error;
  if (Error error = check_batch(request.target_probs, "target_probs")) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  const ChainTask task{request, result, static_cast<RowRecord*>(execution.workspace)};
  const std::int64_t rows = request.target_probs.rows + request.batch * request.num_draft_tokens;
  if (Error error = check_pointers(request, result, execution, rows)) return error;
  if (request.batch == 0) return {};
  return check_launch("chain_speculative_sampling",
                      accept_chains(task, path, stream_of(execution)));
}

}  // namespace fairdraw::cuda
