// The headers fairdraw/cuda*.h in a build without CUDA kernels: every call returns `unsupported`
// with the reason, and nothing is allocated or written. no_cuda_serving.cpp has those of serving.
#include "common/operation_calls.h"
#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"
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

std::int64_t workspace_bytes(const ProcessLogitsRequest&) noexcept { return 0; }

Error process_logits(const ProcessLogitsRequest&, const ProcessLogitsResult&, const Execution&) {
  return no_cuda();
}

Error tile_index(const TileIndexRequest&, const TileIndexResult&, void*) { return no_cuda(); }

Error sample(const SampleRequest&, const SampleResult&, const Execution&) { return no_cuda(); }

Error log_probabilities(const SampleRequest&, View<const std::int32_t>, const LogprobsResult&,
                        View<RowStatus>, const Execution&) {
  return no_cuda();
}

Error run_operation(const OperationCall&, const Execution&) { return no_cuda(); }

Error top_k_mask_logits(const RowsView&, const PerRequest<std::int32_t>&, void*, std::int64_t,
                        View<RowStatus>, const Execution&) {
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

}  // namespace fairdraw::cuda
