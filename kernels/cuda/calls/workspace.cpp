// The size of a workspace is computed before the call is checked, so the arithmetic must not
// overflow for any request.
#include "cuda/calls/workspace.h"

#include <algorithm>

#include "common/arguments.h"
#include "common/dynamic_temperature.h"
#include "common/processing_rules.h"

namespace fairdraw::cuda {
namespace {

std::int64_t rows_of(const SampleRequest& request) {
  return request.logits.rows > 0 ? request.logits.rows : 0;
}

std::int64_t bytes_of(const SampleRequest& request, bool reports) {
  BumpAllocator memory(nullptr);
  Workspace::of(request, reports, memory);
  return memory.bytes();
}

TileIndexResult index_of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory) {
  const std::int64_t tiles = tiles_of(std::clamp<std::int64_t>(vocab, 0, kMaxVocab));
  const std::int64_t entries = product_of(rows, tiles);
  TileIndexResult index;
  index.keys = {memory.allocate<std::int32_t>(entries), rows, tiles};
  index.sums = {memory.allocate<std::uint64_t>(entries), rows, tiles};
  index.statuses = {memory.allocate<RowStatus>(rows), rows};
  return index;
}

}  // namespace

bool is_processed(const LogitsProcessing& processing) {
  const auto is_set = [](const auto& parameter, auto neutral) {
    return parameter.is_array() || !(parameter.scalar == neutral);
  };
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) \
  if (is_set(processing.name, neutral)) return true;
#include "fairdraw/processing_parameters.inc"
  return processing.given();
}

EditPlanes edit_planes(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory) {
  EditPlanes edits;
  edits.words_of_row = (vocab + 31) / 32;
  const std::int64_t words = product_of(rows, edits.words_of_row);
  memory.allocate(edits.allowed, words);
  memory.allocate(edits.edited, words);
  memory.allocate(edits.later, words);
  memory.allocate(edits.faults, rows);
  memory.allocate(edits.values, product_of(rows, edits.tokens_of_row()));
  return edits;
}

std::int64_t workspace_bytes(std::int64_t rows) noexcept {
  BumpAllocator memory(nullptr);
  memory.allocate<RowRecord>(rows);
  return memory.bytes();
}

std::int64_t workspace_bytes(const SampleRequest& request) noexcept {
  return bytes_of(request, false);
}

std::int64_t workspace_bytes(const SampleRequest& request,
                             const LogprobsResult& logprobs) noexcept {
  return bytes_of(request, logprobs.given());
}

Workspace Workspace::of(const SampleRequest& request, bool reports, BumpAllocator& memory) {
  const std::int64_t rows = rows_of(request);
  Workspace workspace;
  memory.allocate(workspace.records, rows);
  if (is_processed(request.processing) && rows > 0) {
    const auto vocab = std::clamp<std::int64_t>(request.logits.vocab, 0, kMaxVocab);
    workspace.edits = edit_planes(rows, vocab, memory);
    if (decays(request.processing)) memory.allocate(workspace.top_p, rows);
    if (follows_entropy(request.processing)) {
      memory.allocate(workspace.entropy_shares, rows);
      memory.allocate(workspace.temperature, rows);
    }
  }
  if (reports) workspace.index = index_of(rows, request.logits.vocab, memory);
  return workspace;
}

}  // namespace fairdraw::cuda
