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

bool is_available(Path) noexcept { return false; }

std::string why_not_available(Path) { return kReason; }

std::int64_t workspace_bytes(std::int64_t) noexcept { return 0; }

std::int64_t workspace_bytes(const SampleRequest&) noexcept { return 0; }

std::int64_t workspace_bytes(const SampleRequest&, const LogprobsResult&) noexcept { return 0; }

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

Error tile_index(const TileIndexRequest&, const TileIndexResult&, void*) { return no_cuda(); }

Error sample(const SampleRequest&, const SampleResult&, const Execution&) { return no_cuda(); }

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

Error log_probabilities(const SampleRequest&, View<const std::int32_t>, const LogprobsResult&,
                        View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error run_operation(const OperationCall&, const Execution&) { return no_cuda(); }

Error top_k_mask_logits(const RowsView&, const PerRequest<std::int32_t>&, void*, std::int64_t,
                        View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error chain_speculative_sampling(const ChainSpeculativeRequest&, const ChainSpeculativeResult&,
                                 const Execution&) {
  return no_cuda();
}

Stream::~Stream() { stream_ = nullptr; }
Error Stream::create() { return no_cuda(); }
Error Stream::synchronise() { return no_cuda(); }

DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
Error DeviceBuffer::reserve(std::int64_t) { return no_cuda(); }
Error DeviceBuffer::upload(std::int64_t, const void*, std::int64_t, const Stream&) {
  return no_cuda();
}
Error DeviceBuffer::download(void*, std::int64_t, std::int64_t, const Stream&) const {
  return no_cuda();
}
Error DeviceBuffer::fill(std::int64_t, std::uint8_t, std::int64_t, const Stream&) {
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
