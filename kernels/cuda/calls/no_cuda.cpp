// Functions of the headers fairdraw/cuda*.h for a build without CUDA kernels. Each function returns
// `unsupported` with the reason, allocates nothing and writes nothing. The functions of serving are
// in no_cuda_serving.cpp.
#include "common/operation_calls.h"
#include "cuda/calls/no_cuda_calls.h"
#include "fairdraw/cuda_memory.h"
#include "fairdraw/cuda_tile_index.h"

namespace fairdraw::cuda {
namespace {

#ifdef FAIRDRAW_CUDA_LEFT_OUT
// If the configuration (cmake/cuda.cmake) finds no GPU, the build has no CUDA kernels, so the user
// may not have chosen such a build.
constexpr const char* kReason =
    "this build has no CUDA kernels, because there was no GPU; `" FAIRDRAW_CUDA_LEFT_OUT
    "` adds them";
#else
constexpr const char* kReason = "this build has no CUDA kernels";
#endif

}  // namespace

bool is_available(Path) noexcept { return false; }

std::string why_not_available(Path) { return kReason; }

FAIRDRAW_NO_BYTES(std::int64_t)
FAIRDRAW_NO_BYTES(const SampleRequest&)
FAIRDRAW_NO_BYTES(const SampleRequest&, const LogprobsResult&)
FAIRDRAW_NO_BYTES(const ProcessLogitsRequest&)
FAIRDRAW_NO_CALL(process_logits, const ProcessLogitsRequest&, const ProcessLogitsResult&,
                 const Execution&)
FAIRDRAW_NO_CALL(tile_index, const TileIndexRequest&, const TileIndexResult&, void*)
FAIRDRAW_NO_CALL(sample, const SampleRequest&, const SampleResult&, const Execution&)
FAIRDRAW_NO_CALL(log_probabilities, const SampleRequest&, View<const std::int32_t>,
                 const LogprobsResult&, View<RowStatus>, const Execution&)
FAIRDRAW_NO_CALL(run_operation, const OperationCall&, const Execution&)
FAIRDRAW_NO_CALL(top_k_mask_logits, const RowsView&, const PerRequest<std::int32_t>&, void*,
                 std::int64_t, View<RowStatus>, const Execution&)

Stream::~Stream() { stream_ = nullptr; }
FAIRDRAW_NO_CALL(Stream::create)
FAIRDRAW_NO_CALL(Stream::synchronise)

DeviceBuffer::~DeviceBuffer() { data_ = nullptr; }
FAIRDRAW_NO_CALL(DeviceBuffer::reserve, std::int64_t)
FAIRDRAW_NO_CALL(DeviceBuffer::upload, std::int64_t, const void*, std::int64_t, const Stream&)
Error DeviceBuffer::download(void*, std::int64_t, std::int64_t, const Stream&) const {
  return {ErrorCode::unsupported, kReason};
}
FAIRDRAW_NO_CALL(DeviceBuffer::fill, std::int64_t, std::uint8_t, std::int64_t, const Stream&)

}  // namespace fairdraw::cuda
