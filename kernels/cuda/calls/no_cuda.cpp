// The headers fairdraw/cuda*.h in a build without CUDA kernels: every call returns `unsupported`
// with the reason, and nothing is allocated or written.
#include <utility>

#include "common/operation_calls.h"
#include "fairdraw/cuda.h"
#include "fairdraw/cuda_beam_result.h"
#include "fairdraw/cuda_fused_sampling_processor.h"
#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_memory.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/cuda_stop_criteria.h"
#include "fairdraw/cuda_tile_index.h"

namespace fairdraw::cuda {
namespace {

#ifdef FAIRDRAW_CUDA_LEFT_OUT
// There was no GPU when it was configured (cmake/cuda.cmake): the user did not ask for this.
constexpr const char* kReason =
    "this build has no CUDA kernels, because there was no GPU; `" FAIRDRAW_CUDA_LEFT_OUT
    "` adds them";
#else
constexpr const char* kReason = "this build has no CUDA kernels";
#endif

Error no_cuda() { return {ErrorCode::unsupported, kReason}; }

}  // namespace

#define FAIRDRAW_NO_BYTES(...) \
  std::int64_t workspace_bytes(__VA_ARGS__) noexcept { return 0; }
#define FAIRDRAW_NO_CALL(name, ...) \
  Error name(__VA_ARGS__) { return no_cuda(); }

bool is_available(Path) noexcept { return false; }

std::string why_not_available(Path) { return kReason; }

FAIRDRAW_NO_BYTES(std::int64_t)
FAIRDRAW_NO_BYTES(const SampleRequest&)
FAIRDRAW_NO_BYTES(const SampleRequest&, const LogprobsResult&)
FAIRDRAW_NO_BYTES(const SampleRequest&, const LogprobsResult&, const KeptSets&)
FAIRDRAW_NO_CALL(sample_with_kept_sets, const SampleRequest&, const SampleResult&, const KeptSets&,
                 const Execution&)
FAIRDRAW_NO_BYTES(const KeptMask&)
FAIRDRAW_NO_CALL(kept_sets_of_mask, const KeptMask&, const KeptSets&, const Execution&)
FAIRDRAW_NO_BYTES(const VerifyChainRequest&, const KeptSets&)
FAIRDRAW_NO_BYTES(const VerifyTreeRequest&, const KeptSets&)
FAIRDRAW_NO_CALL(verify_chain_with_kept_sets, const VerifyChainRequest&, const VerifyChainResult&,
                 const KeptSets&, const Execution&)
FAIRDRAW_NO_CALL(verify_tree_with_kept_sets, const VerifyTreeRequest&, const VerifyTreeResult&,
                 const KeptSets&, const Execution&)
FAIRDRAW_NO_BYTES(const VerifyChainRequest&)
FAIRDRAW_NO_BYTES(const VerifyTreeRequest&)
FAIRDRAW_NO_CALL(verify_chain, const VerifyChainRequest&, const VerifyChainResult&,
                 const Execution&)
FAIRDRAW_NO_CALL(verify_tree, const VerifyTreeRequest&, const VerifyTreeResult&, const Execution&)
FAIRDRAW_NO_BYTES(const ProcessLogitsRequest&)
FAIRDRAW_NO_CALL(process_logits, const ProcessLogitsRequest&, const ProcessLogitsResult&,
                 const Execution&)
FAIRDRAW_NO_BYTES(const BeamStepRequest&)
FAIRDRAW_NO_CALL(beam_search_step, const BeamStepRequest&, const BeamStepResult&, const Execution&)
FAIRDRAW_NO_CALL(beam_search_result, const BeamResultRequest&, const BeamSequences&, void*)
FAIRDRAW_NO_CALL(check_stop, const StopRequest&, const StopResult&, void*)
FAIRDRAW_NO_CALL(tile_index, const TileIndexRequest&, const TileIndexResult&, void*)
FAIRDRAW_NO_CALL(sample, const SampleRequest&, const SampleResult&, const Execution&)
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
FAIRDRAW_NO_CALL(log_probabilities, const SampleRequest&, View<const std::int32_t>,
                 const LogprobsResult&, View<RowStatus>, const Execution&)
FAIRDRAW_NO_CALL(run_operation, const OperationCall&, const Execution&)
FAIRDRAW_NO_CALL(top_k_mask_logits, const RowsView&, const PerRequest<std::int32_t>&, void*,
                 std::int64_t, View<RowStatus>, const Execution&)
FAIRDRAW_NO_CALL(chain_speculative_sampling, const ChainSpeculativeRequest&,
                 const ChainSpeculativeResult&, const Execution&)

Stream::~Stream() { stream_ = nullptr; }
FAIRDRAW_NO_CALL(Stream::create)
FAIRDRAW_NO_CALL(Stream::synchronise)

DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
FAIRDRAW_NO_CALL(DeviceBuffer::reserve, std::int64_t)
FAIRDRAW_NO_CALL(DeviceBuffer::upload, std::int64_t, const void*, std::int64_t, const Stream&)
Error DeviceBuffer::download(void*, std::int64_t, std::int64_t, const Stream&) const {
  return no_cuda();
}
FAIRDRAW_NO_CALL(DeviceBuffer::fill, std::int64_t, std::uint8_t, std::int64_t, const Stream&)

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
