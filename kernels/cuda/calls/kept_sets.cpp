// Makes kept sets on the GPU, which are the ids of the tokens that the filters keep
// (fairdraw/cuda_kept_sets.h). In a call of `sample`, the survivors of the filters are marked and
// packed after the kernels of the call itself. If masks are given as rows of bits, the set bits are
// counted by parts of rows, and then packed (kept_sets.cu).
#include <algorithm>

#include "cuda/calls/kept_workspace.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "fairdraw/cuda_kept_sets.h"
#include "serving/rules/kept_arguments.h"

namespace fairdraw::cuda {
namespace {

class KeptTask final : public SurvivorsTask {
 public:
  explicit KeptTask(const KeptSets& kept) : kept_(kept) {}

  bool writes_sizes() const override { return true; }

  Error check(const SampleRequest& request) const override {
    return check_kept(kept_, outputs_of(request));
  }

  void check(DevicePointers& pointers) const override {
    pointers.check("kept.token_ids", kept_.token_ids);
    pointers.check("kept.offsets", kept_.offsets);
    pointers.check("kept.overflow", kept_.overflow);
  }

  TileRows<std::int32_t> allocate(const SampleRequest& request, BumpAllocator& memory) override {
    workspace_ = KeptWorkspace::of(std::max<std::int64_t>(request.logits.rows, 0),
                                   request.logits.vocab, memory);
    return workspace_.keys;
  }

  /// Marks the survivors of filtered rows and packs them.
  Error enqueue(const SampleRequest& request, const SampleResult& result, const SurvivorRows& rows,
                cudaStream_t stream) const override {
    if (request.logits.rows > 0) {
      const MarkTask mark{rows.filtered,
                          {rows.keys.data, rows.keys.rows, rows.keys.row_stride},
                          workspace_.marks,
                          workspace_.words};
      if (Error error = check_launch("mark_kept", mark_kept(mark, stream))) return error;
    }
    PackTask pack;
    pack.marks = workspace_.marks;
    pack.indices = request.indices;
    pack.outputs = outputs_of(request);
    pack.kept = kept_;
    pack.support_size = result.support_size.data;
    return check_launch("pack_kept", pack_kept(pack, stream));
  }

 private:
  KeptSets kept_;
  KeptWorkspace workspace_;
};

std::int32_t* counts_of(const KeptMask& rows, BumpAllocator& memory) {
  return memory.allocate<std::int32_t>(product_of(rows.mask.rows, kept_parts(rows.mask.rows)));
}

}  // namespace

KeptWorkspace KeptWorkspace::of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory) {
  vocab = std::clamp<std::int64_t>(vocab, 0, kMaxVocab);
  KeptWorkspace kept;
  kept.keys = {memory.allocate<std::int32_t>(product_of(rows, tiles_of(vocab))), rows,
               tiles_of(vocab)};
  memory.allocate(kept.words, product_of(rows, mark_words_of(vocab)));
  kept.marks.words = kept.words;
  kept.marks.row_stride = mark_words_of(vocab);
  kept.marks.rows = rows;
  kept.marks.vocab = vocab;
  kept.marks.parts = kept_parts(rows);
  memory.allocate(kept.marks.counts, product_of(rows, kept.marks.parts));
  return kept;
}

std::int64_t workspace_bytes(const SampleRequest& request, const LogprobsResult& logprobs,
                             const KeptSets& kept) noexcept {
  BumpAllocator memory(nullptr);
  Workspace::of(request, logprobs.given(), memory);
  KeptTask(kept).allocate(request, memory);
  return memory.bytes();
}

Error sample_with_kept_sets(const SampleRequest& request, const SampleResult& result,
                            const KeptSets& kept, const Execution& execution) {
  KeptTask task(kept);
  SampleOptions options;
  options.survivors = &task;
  return sample_rows(request, result, execution, options);
}

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
