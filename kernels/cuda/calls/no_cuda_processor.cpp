// fairdraw/cuda_fused_sampling_processor.h in a build without CUDA kernels: there is no processor.
#include <utility>

#include "fairdraw/cuda_fused_sampling_processor.h"

namespace fairdraw::cuda {
namespace {

Error no_cuda() { return {ErrorCode::unsupported, why_not_available()}; }

}  // namespace

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
