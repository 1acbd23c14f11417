// Functions of serving on the GPU for a build without CUDA kernels, all of which return an error
// (no_cuda.cpp).
#include <utility>

#include "cuda/calls/no_cuda_calls.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_beam_search.h"
#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/cuda_speculative.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "fairdraw/cuda_watermark.h"

namespace fairdraw::cuda {

FAIRDRAW_NO_BYTES(const SampleRequest&, const LogprobsResult&, const KeptSets&)
FAIRDRAW_NO_CALL(sample_with_kept_sets, const SampleRequest&, const SampleResult&, const KeptSets&,
                 const Execution&)
FAIRDRAW_NO_BYTES(const SampleRequest&, const LogprobsResult&, const Watermark&)
FAIRDRAW_NO_CALL(sample_marked, const SampleRequest&, const Watermark&, const SampleResult&,
                 const Execution&)
FAIRDRAW_NO_BYTES(const KeptMask&)
FAIRDRAW_NO_CALL(kept_sets_of_mask, const KeptMask&, const KeptSets&, const Execution&)
FAIRDRAW_NO_BYTES(const AcceptChainRequest&, const KeptSets&)
FAIRDRAW_NO_BYTES(const AcceptTreeRequest&, const KeptSets&)
FAIRDRAW_NO_CALL(accept_chain_with_kept_sets, const AcceptChainRequest&, const AcceptChainResult&,
                 const KeptSets&, const Execution&)
FAIRDRAW_NO_CALL(accept_tree_with_kept_sets, const AcceptTreeRequest&, const AcceptTreeResult&,
                 const KeptSets&, const Execution&)
FAIRDRAW_NO_BYTES(const AcceptChainRequest&)
FAIRDRAW_NO_BYTES(const AcceptTreeRequest&)
FAIRDRAW_NO_CALL(accept_chain, const AcceptChainRequest&, const AcceptChainResult&,
                 const Execution&)
FAIRDRAW_NO_CALL(accept_tree, const AcceptTreeRequest&, const AcceptTreeResult&, const Execution&)
FAIRDRAW_NO_BYTES(const BeamStepRequest&)
FAIRDRAW_NO_CALL(beam_search_step, const BeamStepRequest&, const BeamStepResult&, const Execution&)
FAIRDRAW_NO_CALL(beam_search_result, const BeamResultRequest&, const BeamSequences&, void*)
FAIRDRAW_NO_CALL(check_stop, const StopRequest&, const StopResult&, void*)
FAIRDRAW_NO_BYTES(const ShardedRequest&, const SampleResult&)

struct ShardedCall::Parts {};

ShardedCall::ShardedCall() = default;
ShardedCall::~ShardedCall() = default;
ShardedCall::ShardedCall(ShardedCall&&) noexcept = default;
ShardedCall& ShardedCall::operator=(ShardedCall&&) noexcept = default;
std::byte* ShardedCall::send(ShardedExchange) const { return nullptr; }
std::byte* ShardedCall::receive(ShardedExchange) const { return nullptr; }
std::int64_t ShardedCall::bytes(ShardedExchange) const { return 0; }
const std::int32_t* ShardedCall::undecided() const { return nullptr; }
std::int32_t ShardedCall::gathers(std::int32_t) const { return 0; }

FAIRDRAW_NO_CALL(make_sharded_call, const ShardedRequest&, const SampleResult&, const Execution&,
                 ShardedCall&)
FAIRDRAW_NO_CALL(sharded_send, const ShardedCall&, ShardedExchange)
FAIRDRAW_NO_CALL(sharded_receive, const ShardedCall&, ShardedExchange)
std::int64_t peer_bytes(const ShardedCall&, std::int64_t) { return 0; }
FAIRDRAW_NO_CALL(use_peers, ShardedCall&, const ShardedPeers&)
FAIRDRAW_NO_CALL(continue_sharded, const ShardedCall&, std::int32_t)
FAIRDRAW_NO_CALL(sample_sharded, const ShardedCall&, const ShardedPlan&)
FAIRDRAW_NO_CALL(chain_speculative_sampling, const ChainSpeculativeRequest&,
                 const ChainSpeculativeResult&, const Execution&)

struct FusedSamplingProcessor::Device {};

FusedSamplingProcessor::FusedSamplingProcessor(std::unique_ptr<Device> device)
    : device_(std::move(device)) {}
FusedSamplingProcessor::~FusedSamplingProcessor() = default;

FAIRDRAW_NO_CALL(FusedSamplingProcessor::make, BatchState&, const FusedSamplingOptions&,
                 std::unique_ptr<FusedSamplingProcessor>&)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::step, const RowsView&)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::step, const RowsView&, View<const std::int64_t>, StepRows,
                 std::int32_t)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::step, const RowsView&, View<const std::uint32_t>, StepRows,
                 std::int32_t)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::bring_changes)
View<const std::int32_t> FusedSamplingProcessor::new_tokens() const noexcept { return {}; }
View<const std::int32_t> FusedSamplingProcessor::new_token_counts() const noexcept { return {}; }
View<const RowStatus> FusedSamplingProcessor::statuses() const noexcept { return {}; }
TokenLists FusedSamplingProcessor::generated_tokens() const noexcept { return {}; }
FAIRDRAW_NO_CALL(FusedSamplingProcessor::update_bitmask, const BitRows<const std::uint32_t>&)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::clear_bitmask)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::start_async_token_copy)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::wait_for_tokens, CopiedStep&)
FAIRDRAW_NO_CALL(FusedSamplingProcessor::catch_up)

}  // namespace fairdraw::cuda
