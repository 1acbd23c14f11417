// The calls of serving on a GPU in a build without CUDA kernels (no_cuda.cpp).
#include <utility>

#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/cuda_stop_criteria.h"

namespace fairdraw::cuda {
namespace {

Error no_cuda() { return {ErrorCode::unsupported, why_not_available()}; }

}  // namespace

std::int64_t workspace_bytes(const SampleRequest&, const LogprobsResult&,
                             const KeptSets&) noexcept {
  return 0;
}

Error sample_with_kept_sets(const SampleRequest&, const SampleResult&, const KeptSets&,
                            const Execution&) {
  return no_cuda();
}

std::int64_t workspace_bytes(const KeptMask&) noexcept { return 0; }

Error kept_sets_of_mask(const KeptMask&, const KeptSets&, const Execution&) { return no_cuda(); }

std::int64_t workspace_bytes(const VerifyChainRequest&, const KeptSets&) noexcept { return 0; }

std::int64_t workspace_bytes(const VerifyTreeRequest&, const KeptSets&) noexcept { return 0; }

Error verify_chain_with_kept_sets(const VerifyChainRequest&, const VerifyChainResult&,
                                  const KeptSets&, const Execution&) {
  return no_cuda();
}

Error verify_tree_with_kept_sets(const VerifyTreeRequest&, const VerifyTreeResult&, const KeptSets&,
                                 const Execution&) {
  return no_cuda();
}

std::int64_t workspace_bytes(const VerifyChainRequest&) noexcept { return 0; }

std::int64_t workspace_bytes(const VerifyTreeRequest&) noexcept { return 0; }

Error verify_chain(const VerifyChainRequest&, const VerifyChainResult&, const Execution&) {
  return no_cuda();
}

Error verify_tree(const VerifyTreeRequest&, const VerifyTreeResult&, const Execution&) {
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

std::int64_t workspace_bytes(const ShardedRequest&, const SampleResult&) noexcept { return 0; }

struct ShardedCall::Parts {};

ShardedCall::ShardedCall() = default;
ShardedCall::~ShardedCall() = default;
ShardedCall::ShardedCall(ShardedCall&&) noexcept = default;
ShardedCall& ShardedCall::operator=(ShardedCall&&) noexcept = default;
std::byte* ShardedCall::send(ShardedExchange) const { return nullptr; }
std::byte* ShardedCall::receive(ShardedExchange) const { return nullptr; }
std::int64_t ShardedCall::bytes(ShardedExchange) const { return 0; }
const std::int32_t* ShardedCall::undecided() const { return nullptr; }

Error make_sharded_call(const ShardedRequest&, const SampleResult&, const Execution&,
                        ShardedCall&) {
  return no_cuda();
}
Error sharded_send(const ShardedCall&, ShardedExchange) { return no_cuda(); }
Error sharded_receive(const ShardedCall&, ShardedExchange) { return no_cuda(); }
std::int64_t peer_bytes(const ShardedCall&, std::int64_t) { return 0; }
Error use_peers(ShardedCall&, const ShardedPeers&) { return no_cuda(); }
Error continue_sharded(const ShardedCall&, const ShardedPlan&) { return no_cuda(); }
Error sample_sharded(const ShardedCall&, const ShardedPlan&) { return no_cuda(); }

Error chain_speculative_sampling(const ChainSpeculativeRequest&, const ChainSpeculativeResult&,
                                 const Execution&) {
  return no_cuda();
}

struct FusedSamplingProcessor::Device {};

FusedSamplingProcessor::FusedSamplingProcessor(std::unique_ptr<Device> device)
    : device_(std::move(device)) {}
FusedSamplingProcessor::~FusedSamplingProcessor() = default;

Error FusedSamplingProcessor::make(BatchState&, const FusedSamplingOptions&,
                                   std::unique_ptr<FusedSamplingProcessor>&) {
  return no_cuda();
}

Error FusedSamplingProcessor::step(const RowsView&) { return no_cuda(); }
Error FusedSamplingProcessor::step(const RowsView&, View<const std::int64_t>, StepRows,
                                   std::int32_t) {
  return no_cuda();
}
Error FusedSamplingProcessor::step(const RowsView&, View<const std::uint32_t>, StepRows,
                                   std::int32_t) {
  return no_cuda();
}
Error FusedSamplingProcessor::bring_changes() { return no_cuda(); }
View<const std::int32_t> FusedSamplingProcessor::new_tokens() const noexcept { return {}; }
View<const std::int32_t> FusedSamplingProcessor::new_token_counts() const noexcept { return {}; }
View<const RowStatus> FusedSamplingProcessor::statuses() const noexcept { return {}; }
TokenLists FusedSamplingProcessor::generated_tokens() const noexcept { return {}; }
Error FusedSamplingProcessor::update_bitmask(const BitRows<const std::uint32_t>&) {
  return no_cuda();
}
Error FusedSamplingProcessor::clear_bitmask() { return no_cuda(); }
Error FusedSamplingProcessor::start_async_token_copy() { return no_cuda(); }
Error FusedSamplingProcessor::wait_for_tokens(CopiedStep&) { return no_cuda(); }
Error FusedSamplingProcessor::catch_up() { return no_cuda(); }

}  // namespace fairdraw::cuda
