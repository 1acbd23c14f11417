// Probabilities, of all dtypes.
#include "filter_rows_launch.cuh"

namespace fairdraw::cuda {

template cudaError_t launch_filter_rows<DType::float32, true>(const RowsTask&, const Spread&,
                                                              cudaStream_t);
template cudaError_t launch_filter_rows<DType::float16, true>(const RowsTask&, const Spread&,
                                                              cudaStream_t);
template cudaError_t launch_filter_rows<DType::bfloat16, true>(const RowsTask&, const Spread&,
                                                               cudaStream_t);

}  // namespace fairdraw::cuda
