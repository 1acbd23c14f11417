// Logits processing of rows (fairdraw/logits_processing.h), which finds the edits that the row
// kernel applies.
//
// Contract. For every active row of a task with `edits`, the kernel turns penalties, biases and
// bans into edited values and bits (edit_planes.h), bit for bit as on the CPU. If the parameters or
// lists of a row have errors, or if a processing step makes a logit infinite, the row gets a fault;
// parameters that are out of range change nothing. No memory beyond the end of the row is written.
//
// Algorithm and cost. Each row has one block. All threads together process one list after another,
// with one entry per thread, between barriers. The lists are not sorted, so the cost is linear in
// their lengths, plus the number of words of the row's bits. (The rule against repeated n-grams
// compares up to n ids at each place of the history.) Logits are read only for tokens in the
// lists.
//   1. Reads the lists, their first entries, these tokens' logits and the first words of `allowed`.
//   2. Clears the edits; sets allowed bits to what the call's mask and the allowed ids leave.
//   3. Penalties and biases. Lists of up to kTableEntries ids together meet in a table in shared
//      memory (edit_table.cuh), each of whose tokens is then written once. Longer lists, and dense
//      counts and masks, work in the workspace: counts are set to 0, then added up by atomics; then
//      the thread that sets a token's edited bit reads its count and writes its logit. The last of
//      a token's biases is found by an atomic maximum over places in the list.
//   4. In calls with green tokens, which have a kernel of their own, each warp adds the bias of
//      those without a bias of their own, in 8 words of bits at a time. With one word at a time, a
//      row of 128256 tokens took 140 microseconds more.
//   5. Stop ids, bad words: bits of bans. A forced token has replaced the allowed ids before
//   step 1. Then come the penalty of repetitions and the bans of n-grams, in rows that ask for them
//   (row_histories.cuh).
//   6. top_n_sigma and the filters by probability, in rows that ask for them (row_filters.cuh).
// The edits are found by a launch of their own before the row kernel, which may start when this
// kernel has read its input (compute capability 9.0). So the row kernel needs no additional
// registers and instructions, and can load its rows in the meantime. The time of this kernel, 10
// microseconds for one row, is the latency of dependent reads and instructions, and not due to the
// amount of work.
//
// Designs that were tried took the following times in microseconds, with the row kernel as it was
// before tiles (H200, B = 64, V = 128256, top_k 50 + top_p 0.9, bitmask, 512 tokens of output, 64
// biases). At that time, a call took 29 without processing, 34 with the bitmask alone, and 49 with
// this kernel.
//   inside the row kernel, while the row is in flight: memory that brings 64 rows at once answers a
//     read that follows them after 8. Bits in the workspace 68, in shared memory 58, streamed steps
//     through L2 51; all reads before the row's 57
//   a launch of its own that ends before the row kernel starts 56; that lets it start at once 52
//   penalties and biases in the workspace alone instead of the table 52
// With penalties alone, a call took 34 for one row and 47 for 64 rows when every row loaded and
// checked filters and rules inline, and launches of the row kernel carried the parameters of
// processing. It takes 32 and 45 with that code out of line, before and after the edits. Calls of
// it in the midst of the edits spill registers, and take 2 more.
//
// Randomness: none. Numerics. The rules are those of kernels/common/processing_rules.h, in float32
// with one rounding per operation. Determinism: counts are sums of integers, the last entry of a
// token is a maximum, and each edited value is written by one thread between barriers. So the
// results do not depend on the order of threads.
#include "cuda/device/row_launch.h"
#include "cuda/processing/edit_rows.h"
#include "cuda/processing/editor_memory.cuh"
#include "cuda/processing/row_editor.cuh"

namespace fairdraw::cuda {

cudaError_t edit_rows(const EditTask& task, cudaStream_t stream) {
  if (task.green.bits != nullptr) return edit_green_rows(task, stream);
  return launch_clusters(edit_rows_kernel<false>, task.rows.rows, 1, kEditThreads, stream, task,
                         GivenParameters::of(task.processing));
}

}  // namespace fairdraw::cuda
