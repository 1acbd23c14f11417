#include "filter_rows_launch.cuh"

namespace fairdraw::cuda {

template cudaError_t launch_filter_rows<DType::float16, false, false>(const RowsTask&,
                                                                      const Spread&, cudaStream_t);

}  // namespace fairdraw::cuda
