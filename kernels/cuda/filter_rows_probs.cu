// Probabilities, of all dtypes.
#include "filter_rows_launch.cuh"

namespace fairdraw::cuda {

template cudaError_t launch_filter_rows<DType::float32, true, false>(const RowsTask&, const Spread&,
                                                                     cudaStream_t);
template cudaError_t launch_filter_rows<DType::float16, true, false>(const RowsTask&, const Spread&,
                                                                     cudaStream_t);
template cudaError_t launch_filter_rows<DType::bfloat16, true, false>(const RowsTask&,
                                                                      const Spread&, cudaStream_t);

}  // namespace fairdraw::cuda
