// Kept sets of rows of bits on the GPU (fairdraw/cuda_kept_sets.h): their words are counted by
// parts of rows, and packed (kept_sets.cu).
#include "cuda/outputs/kept_sets.h"

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "fairdraw/cuda_kept_sets.h"

namespace fairdraw::cuda {
namespace {

std::int32_t* counts_of(const KeptMask& rows, BumpAllocator& memory) {
  return memory.allocate<std::int32_t>(product_of(rows.mask.rows, kept_parts(rows.mask.rows)));
}

}  // namespace

std::int64_t workspace_bytes(const KeptMask& rows) noexcept {
  BumpAllocator memory(nullptr);
  counts_of(rows, memory);
  return memory.bytes();
}

Error kept_sets_of_mask(const KeptMask& rows, const KeptSets& kept, const Execution& execution) {
  if (Error error = check_kept_mask(rows, kept)) return error;
  if (rows.mask.rows > kMaxRows) {
    return out_of_range("mask.rows", std::to_string(rows.mask.rows),
                        "0 to " + std::to_string(kMaxRows));
  }
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  DevicePointers pointers;
  if (rows.vocab > 0) pointers.check("mask", rows.mask);
  pointers.check("indices", rows.indices);
  pointers.check("statuses", rows.statuses);
  pointers.check("kept.token_ids", kept.token_ids);
  pointers.check("kept.offsets", kept.offsets);
  pointers.check("kept.overflow", kept.overflow);
  pointers.check_workspace(execution, workspace_bytes(rows), rows.mask.rows);
  if (pointers.error()) return pointers.error();

  const cudaStream_t stream = stream_of(execution);
  BumpAllocator memory(execution.workspace);
  PackTask pack;
  pack.marks = {rows.mask.data, rows.mask.row_stride,    rows.mask.rows,
                rows.vocab,     counts_of(rows, memory), kept_parts(rows.mask.rows)};
  if (rows.mask.rows > 0) {
    if (Error error = check_launch("count_kept", count_kept(pack.marks, stream))) return error;
  }
  pack.indices = rows.indices;
  pack.statuses = rows.statuses;
  pack.outputs = outputs_of(rows);
  pack.first_id = rows.first_id;
  pack.kept = kept;
  return check_launch("pack_kept", pack_kept(pack, stream));
}

}  // namespace fairdraw::cuda
