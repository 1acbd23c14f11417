// fairdraw/cuda.h, cuda_beam_result.h and cuda_stop_criteria.h in a build without CUDA kernels:
// every call says so, and nothing is written.
#include "fairdraw/cuda.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_stop_criteria.h"

namespace fairdraw::cuda {
namespace {

constexpr const char* kReason = "this build has no CUDA kernels";

Error no_cuda() { return {ErrorCode::unsupported, kReason}; }

}  // namespace

bool is_available(Path) noexcept { return false; }

std::string why_not_available(Path) { return kReason; }

std::int64_t workspace_bytes(std::int64_t) noexcept { return 0; }

std::int64_t workspace_bytes(const SampleRequest&) noexcept { return 0; }

std::int64_t workspace_bytes(const SampleRequest&, const LogprobsResult&) noexcept { return 0; }

std::int64_t workspace_bytes(const VerifyChainRequest&) noexcept { return 0; }

std::int64_t workspace_bytes(const VerifyTreeRequest&) noexcept { return 0; }

Error verify_chain(const VerifyChainRequest&, const VerifyChainResult&, const Execution&) {
  return no_cuda();
}

Error verify_tree(const VerifyTreeRequest&, const VerifyTreeResult&, const Execution&) {
  return no_cuda();
}

std::int64_t workspace_bytes(const ProcessLogitsRequest&) noexcept { return 0; }

Error process_logits(const ProcessLogitsRequest&, const ProcessLogitsResult&, const Execution&) {
  return no_cuda();
}

std::int64_t workspace_bytes(const BeamStepRequest&) noexcept { return 0; }

Error beam_search_step(const BeamStepRequest&, const BeamStepResult&, const Execution&) {
  return no_cuda();
}

Error beam_search_result(const BeamResultRequest&, const BeamSequences&, void*) {
  return no_cuda();
}

Error check_stop(const StopRequest&, const StopResult&, void*) { return no_cuda(); }

Error sample(const SampleRequest&, const SampleResult&, const Execution&) { return no_cuda(); }

Error log_probabilities(const SampleRequest&, View<const std::int32_t>, const LogprobsResult&,
                        View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error softmax(const RowsView&, const PerRequest<float>&, const FloatRows&, View<RowStatus>,
              const Execution&) {
  return no_cuda();
}

Error sampling_from_logits(const RowsView&, const DrawOptions&, const DrawResult&,
                           const Execution&) {
  return no_cuda();
}

Error sampling_from_probs(const RowsView&, const DrawOptions&, const DrawResult&,
                          const Execution&) {
  return no_cuda();
}

Error top_k_sampling_from_probs(const RowsView&, const PerRequest<std::int32_t>&,
                                const DrawOptions&, const DrawResult&, const Execution&) {
  return no_cuda();
}

Error top_p_sampling_from_probs(const RowsView&, const PerRequest<float>&, const DrawOptions&,
                                const DrawResult&, const Execution&) {
  return no_cuda();
}

Error min_p_sampling_from_probs(const RowsView&, const PerRequest<float>&, const DrawOptions&,
                                const DrawResult&, const Execution&) {
  return no_cuda();
}

Error top_k_top_p_sampling_from_logits(const RowsView&, const PerRequest<std::int32_t>&,
                                       const PerRequest<float>&, FilterOrder, const DrawOptions&,
                                       const DrawResult&, const Execution&) {
  return no_cuda();
}

Error top_k_top_p_sampling_from_probs(const RowsView&, const PerRequest<std::int32_t>&,
                                      const PerRequest<float>&, FilterOrder, const DrawOptions&,
                                      const DrawResult&, const Execution&) {
  return no_cuda();
}

Error top_k_mask_logits(const RowsView&, const PerRequest<std::int32_t>&, void*, std::int64_t,
                        View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error top_k_renorm_probs(const RowsView&, const PerRequest<std::int32_t>&, const FloatRows&,
                         View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error top_p_renorm_probs(const RowsView&, const PerRequest<float>&, const FloatRows&,
                         View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error chain_speculative_sampling(const ChainSpeculativeRequest&, const ChainSpeculativeResult&,
                                 const Execution&) {
  return no_cuda();
}

}  // namespace fairdraw::cuda
