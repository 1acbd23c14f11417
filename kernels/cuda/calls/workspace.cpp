#include "cuda/calls/workspace.h"

namespace fairdraw::cuda {
namespace {

std::int64_t rows_of(const SampleRequest& request) {
  return request.logits.rows > 0 ? request.logits.rows : 0;
}

std::int64_t bytes_of(const SampleRequest& request, bool reports) {
  Parts parts(nullptr);
  Workspace::of(request, reports, parts);
  return parts.bytes();
}

}  // namespace

bool is_processed(const LogitsProcessing& processing) {
  const auto is_set = [](const auto& parameter, auto neutral) {
    return parameter.is_array() || !(parameter.scalar == neutral);
  };
  return processing.given() || is_set(processing.repetition_penalty, 1.0F) ||
         is_set(processing.frequency_penalty, 0.0F) || is_set(processing.presence_penalty, 0.0F) ||
         is_set(processing.min_tokens, 0);
}

RowHeads heads_of(std::int64_t rows, Parts& parts) {
  RowHeads heads;
  heads.counts = parts.take<std::int32_t>(rows);
  heads.values = parts.take<float>(rows * RowHeads::kMax);
  heads.ids = parts.take<std::int32_t>(rows * RowHeads::kMax);
  return heads;
}

std::int64_t workspace_bytes(std::int64_t rows) noexcept {
  Parts parts(nullptr);
  parts.take<RowRecord>(rows);
  return parts.bytes();
}

std::int64_t workspace_bytes(const SampleRequest& request) noexcept {
  return bytes_of(request, false);
}

std::int64_t workspace_bytes(const SampleRequest& request,
                             const LogprobsResult& logprobs) noexcept {
  return bytes_of(request, logprobs.given());
}

Workspace Workspace::of(const SampleRequest& request, bool reports, Parts& parts) {
  const std::int64_t rows = rows_of(request);
  Workspace workspace;
  workspace.records = parts.take<RowRecord>(rows);
  if (is_processed(request.processing) && rows > 0) {
    EditPlanes& edits = workspace.edits;
    edits.places_of_row = places_of(request.logits.vocab);
    const std::int64_t places = rows * edits.places_of_row;
    edits.bits = parts.take<EditBits>(places / 32);
    edits.later = parts.take<std::uint32_t>(places / 32);
    edits.faults = parts.take<std::uint32_t>(rows);
    edits.values = parts.take<float>(places);
  }
  if (reports) {
    workspace.tops = parts.take<RowRecord>(rows);
    workspace.heads = heads_of(rows, parts);
  }
  return workspace;
}

}  // namespace fairdraw::cuda
