// One instance of the row kernel, compiled once for each of CMake's definitions:
//
//   FAIRDRAW_ROW_FILTER_DTYPE=float32 (float16, bfloat16)   logits of that dtype
//   FAIRDRAW_ROW_FILTER_PROCESSED                           with logits processing in the kernel
//   FAIRDRAW_ROW_FILTER_PROBS                               probabilities, of every dtype
#include "cuda/row_filter/filter_rows_launch.cuh"

namespace fairdraw::cuda {

#ifdef FAIRDRAW_ROW_FILTER_PROBS
template cudaError_t launch_filter_rows<DType::float32, true, false>(const RowsTask&, const Spread&,
                                                                     cudaStream_t);
template cudaError_t launch_filter_rows<DType::float16, true, false>(const RowsTask&, const Spread&,
                                                                     cudaStream_t);
template cudaError_t launch_filter_rows<DType::bfloat16, true, false>(const RowsTask&,
                                                                      const Spread&, cudaStream_t);
#else
#ifdef FAIRDRAW_ROW_FILTER_PROCESSED
inline constexpr bool kProcessed = true;
#else
inline constexpr bool kProcessed = false;
#endif
template cudaError_t launch_filter_rows<DType::FAIRDRAW_ROW_FILTER_DTYPE, false, kProcessed>(
    const RowsTask&, const Spread&, cudaStream_t);
#endif

}  // namespace fairdraw::cuda
