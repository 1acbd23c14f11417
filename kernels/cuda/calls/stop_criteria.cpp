// check_stop on the GPU (fairdraw/cuda_stop_criteria.h): checks, and one launch.
#include "cuda/batch/stop_criteria.h"

#include "common/stop_rules.h"
#include "cuda/device/availability.h"
#include "cuda/device/device_pointers.h"
#include "fairdraw/cuda_stop_criteria.h"

namespace fairdraw::cuda {
namespace {

Error check_pointers(const StopRequest& request, const StopResult& result) {
  DevicePointers pointers;
  const StopCriteria& given = request.criteria;
  pointers.check("step_tokens", request.step_tokens);
  pointers.check("output", request.output);
  pointers.check("output_lengths", request.output_lengths);
  pointers.check("active", request.active);
  pointers.check("eos_id", given.eos_id);
  pointers.check("ignore_eos", given.ignore_eos);
  pointers.check("stop_ids", given.stop_ids);
  pointers.check("stop_sequences", given.stop_sequences);
  pointers.check("stop_sequence_lengths", given.stop_sequence_lengths);
  pointers.check("min_tokens", given.min_tokens);
  pointers.check("max_tokens", given.max_tokens);
  pointers.check("reasons", result.reasons);
  pointers.check("kept", result.kept);
  pointers.check("matched", result.matched);
  pointers.check("matched_lengths", result.matched_lengths);
  pointers.check("result.output_lengths", result.output_lengths);
  pointers.check("statuses", result.statuses);
  return pointers.error();
}

}  // namespace

Error check_stop(const StopRequest& request, const StopResult& result, void* stream) {
  Path path = Path::best;
  if (Error error = check_path(path)) return error;
  if (Error error = check_stop_arguments(request, result)) return error;
  if (Error error = check_pointers(request, result)) return error;
  if (request.requests == 0) return {};
  return check_launch("stop_criteria",
                      find_stops(request, result, static_cast<cudaStream_t>(stream)));
}

}  // namespace fairdraw::cuda
