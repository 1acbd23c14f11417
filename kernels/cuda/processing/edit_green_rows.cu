// Logits processing of rows in calls with green tokens: the kernel of edit_rows.cu, with step 4.
#include "cuda/device/row_launch.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/processing/editor_memory.cuh"
#include "cuda/processing/row_editor.cuh"

namespace fairdraw::cuda {

cudaError_t edit_green_rows(const EditTask& task, cudaStream_t stream) {
  return launch_clusters(edit_rows_kernel<true>, task.rows.rows, 1, kEditThreads, stream, task,
                         GivenParameters::of(task.processing));
}

}  // namespace fairdraw::cuda
