// This header has the operations of fairdraw/sample.h and fairdraw/sampling.h on an NVIDIA GPU.
//
// The same request gives the same results and the same tokens, bit for bit: a request's token does
// not depend on the device that computes it. A call on the GPU has another contract than one on the
// CPU:
//
//   - Every pointer of a request and of a result is device memory (or managed memory): rows, and
//     arrays of parameters, seeds and offsets too. Scalars are taken at the call. A pointer of
//     another kind is an error that names it.
//   - Calls enqueue work on a stream and return. They never synchronise and never allocate, so
//     they can be captured in a CUDA graph; a replay reads arrays of parameters, seeds and offsets
//     again, so it can advance them in device memory.
//   - The caller brings a workspace of at least workspace_bytes(...) bytes. It is free again when
//     the work on the stream has run. Calls on different streams need different workspaces.
//   - Errors of arguments are found before anything is enqueued. Bad values inside a row, or among
//     parameters and indices in device memory, fail that output alone, with its status.
//
// This header needs no CUDA header, so that it can be included without the toolkit.
//
// Errors: A call returns invalid_argument if the call of the same name on the CPU does, if a
// pointer is of another kind or not aligned, if the workspace is too small, or if there are 2^22
// rows or more; then nothing has been enqueued. It returns unsupported if the build or the current
// device cannot run the path (why_not_available() says why), or if the CUDA runtime reports an
// error, which the message names together with the kernel. The statuses of rows and outputs are the
// same as on the CPU.
//
// Definition: fairdraw/sample.h, fairdraw/sampling.h, fairdraw/log_probabilities.h and
// fairdraw/process_logits.h have the calls of the same names.
#pragma once

#include <cstdint>

#include "fairdraw/log_probabilities.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Way in which the work on a row is spread over the GPU. All ways give the same bits. cluster: up
/// to 16 thread blocks per row, which exchange data through distributed shared memory (compute
/// capability 9.0 and newer). block: one thread block per row (compute capability 8.0 and newer).
/// best: cluster or block, chosen by the device, the number of rows and the vocabulary.
enum class Path : std::uint32_t {
  best = 0,     ///< cluster or block, chosen by the device, the number of rows and the vocabulary
  cluster = 1,  ///< up to 16 thread blocks work on a row; needs compute capability 9.0 or newer
  block = 2,    ///< one thread block works on a row; needs compute capability 8.0 or newer
};

/// Returns the name of a path, as in the enum.
const char* to_string(Path path) noexcept;

/// Returns true if this build has CUDA kernels and the current device can run `path`.
bool is_available(Path path = Path::best) noexcept;

/// Returns why is_available() is false, for example "this build has no CUDA kernels". The text is
/// empty if is_available() is true.
std::string why_not_available(Path path = Path::best);

/// Returns the bytes of workspace for a call over `rows` rows of logits or probabilities: 0 for 0
/// rows.
std::int64_t workspace_bytes(std::int64_t rows) noexcept;

/// Returns the bytes of workspace for a call of `sample`. Logits processing (request.processing)
/// adds about 4.4 bytes per value of the rows; of these, a call touches only the bytes of edited
/// tokens.
std::int64_t workspace_bytes(const SampleRequest& request) noexcept;

/// Returns the bytes of workspace for a call of `sample` that reports log-probabilities: 12 bytes
/// more per 256 values of a row.
std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs) noexcept;

/// Returns the bytes of workspace for process_logits: as many as for a `sample` that reports
/// log-probabilities.
std::int64_t workspace_bytes(const ProcessLogitsRequest& request) noexcept;

/// Stream, workspace and path of a call.
struct Execution {
  void* stream = nullptr;     ///< stream of the call, a cudaStream_t of the current device; null:
                              ///< the default stream
  void* workspace = nullptr;  ///< workspace in device memory, at an address that is a multiple of
                              ///< 256
  std::int64_t workspace_bytes = 0;  ///< size of the workspace: at least the result of
                                     ///< cuda::workspace_bytes for the call
  Path path = Path::best;  ///< way in which rows are spread over the GPU; results do not depend on
                           ///< it
};

/// See fairdraw/sample.h. A call may have fewer than 2^22 rows, and as many outputs as the array of
/// tokens has room for.
Error sample(const SampleRequest& request, const SampleResult& result, const Execution& execution);

/// Reports the log-probabilities of given tokens, as fairdraw/log_probabilities.h says. Values may
/// differ from the CPU's by one unit in the last place; ids, ranks and statuses are equal to the
/// CPU's. The workspace is that of a `sample` that reports log-probabilities. The shape of
/// `token_ids` is [outputs, num_samples], and that of `statuses` (optional) [outputs].
Error log_probabilities(const SampleRequest& request, View<const std::int32_t> token_ids,
                        const LogprobsResult& result, View<RowStatus> statuses,
                        const Execution& execution);

/// Writes processed rows, as fairdraw/process_logits.h says. The call reads the rows twice, and
/// writes them once.
Error process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result,
                     const Execution& execution);

// The header fairdraw/sampling.h describes each of the functions below.

/// Computes the same bits as fairdraw::softmax. Shapes: `logits` is [rows, vocab], `temperature` a
/// scalar or [rows], `probs` [rows, vocab], and `statuses` (optional) [rows].
Error softmax(const RowsView& logits, const PerRequest<float>& temperature, const FloatRows& probs,
              View<RowStatus> statuses, const Execution& execution);

/// Draws the tokens that fairdraw::sampling_from_logits draws. `logits` [rows, vocab].
Error sampling_from_logits(const RowsView& logits, const DrawOptions& options,
                           const DrawResult& result, const Execution& execution);

/// Draws the tokens that fairdraw::sampling_from_probs draws. `probs` [rows, vocab].
Error sampling_from_probs(const RowsView& probs, const DrawOptions& options,
                          const DrawResult& result, const Execution& execution);

/// Draws the tokens that fairdraw::top_k_sampling_from_probs draws. Shapes: `probs` is [rows,
/// vocab], and `top_k` a scalar or [rows].
Error top_k_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution);

/// Draws the tokens that fairdraw::top_p_sampling_from_probs draws. Shapes: `probs` is [rows,
/// vocab], and `top_p` a scalar or [rows].
Error top_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& top_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution);

/// Draws the tokens that fairdraw::min_p_sampling_from_probs draws. Shapes: `probs` is [rows,
/// vocab], and `min_p` a scalar or [rows].
Error min_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& min_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution);

/// Draws the tokens that fairdraw::top_k_top_p_sampling_from_logits draws. Shapes: `logits` is
/// [rows, vocab], and `top_k`, `top_p` and `filter_order` are scalars or [rows].
Error top_k_top_p_sampling_from_logits(const RowsView& logits,
                                       const PerRequest<std::int32_t>& top_k,
                                       const PerRequest<float>& top_p,
                                       const PerRequest<FilterOrder>& filter_order,
                                       const DrawOptions& options, const DrawResult& result,
                                       const Execution& execution);

/// Draws the tokens that fairdraw::top_k_top_p_sampling_from_probs draws. Shapes: `probs` is [rows,
/// vocab], and `top_k`, `top_p` and `filter_order` are scalars or [rows].
Error top_k_top_p_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                      const PerRequest<float>& top_p,
                                      const PerRequest<FilterOrder>& filter_order,
                                      const DrawOptions& options, const DrawResult& result,
                                      const Execution& execution);

/// Writes the rows that fairdraw::top_k_mask_logits writes. Shapes: `logits` and `masked` are
/// [rows, vocab], `top_k` a scalar or [rows], and `statuses` (optional) [rows].
Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses,
                        const Execution& execution);

/// Writes the rows that fairdraw::top_k_renorm_probs writes. Shapes: `probs` and `renormalised` are
/// [rows, vocab], `top_k` a scalar or [rows], and `statuses` (optional) [rows].
Error top_k_renorm_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution);

/// Writes the rows that fairdraw::top_p_renorm_probs writes. Shapes: `probs` and `renormalised` are
/// [rows, vocab], `top_p` a scalar or [rows], and `statuses` (optional) [rows].
Error top_p_renorm_probs(const RowsView& probs, const PerRequest<float>& top_p,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution);

}  // namespace fairdraw::cuda
