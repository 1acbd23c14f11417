#include "workspace.h"

#include <cstddef>

namespace fairdraw::cuda {
namespace {

std::int64_t rows_of(const SampleRequest& request) {
  return request.logits.rows > 0 ? request.logits.rows : 0;
}

/// Where each part begins, in bytes; `end`: of the last.
struct Layout {
  std::int64_t bits, later, troubles, values, tops, head_counts, head_values, head_ids, end;
};

/// Room for what is reported, from layout.tops on.
void add_reports(Layout& layout, std::int64_t rows) {
  const std::int64_t entries = rows * RowHeads::kMost;
  layout.head_counts = layout.tops + workspace_bytes(rows);
  layout.head_values = layout.head_counts + whole_steps(rows * 4);
  layout.head_ids = layout.head_values + whole_steps(entries * 4);
  layout.end = layout.head_ids + whole_steps(entries * 4);
}

Layout edits_layout_of(const SampleRequest& request) {
  Layout layout{};
  const std::int64_t rows = rows_of(request);
  layout.bits = workspace_bytes(rows);
  layout.later = layout.troubles = layout.values = layout.end = layout.bits;
  if (!is_processed(request.processing) || rows == 0) return layout;
  const std::int64_t places = rows * places_of(request.logits.vocab);
  const auto words = static_cast<std::int64_t>(places / 32);
  layout.later = layout.bits + whole_steps(words * static_cast<std::int64_t>(sizeof(EditBits)));
  layout.troubles = layout.later + whole_steps(words * 4);
  layout.values = layout.troubles + whole_steps(rows * 4);
  layout.end = layout.values + whole_steps(places * 4);
  return layout;
}

Layout layout_of(const SampleRequest& request, bool reports) {
  Layout layout = edits_layout_of(request);
  layout.tops = layout.end;
  if (reports) add_reports(layout, rows_of(request));
  return layout;
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

std::int64_t workspace_bytes(std::int64_t rows) noexcept {
  return rows <= 0 ? 0 : whole_steps(rows * static_cast<std::int64_t>(sizeof(RowRecord)));
}

std::int64_t workspace_bytes(const SampleRequest& request) noexcept {
  return layout_of(request, false).end;
}

std::int64_t workspace_bytes(const SampleRequest& request,
                             const LogprobsResult& logprobs) noexcept {
  return layout_of(request, logprobs.given()).end;
}

Workspace Workspace::of(const SampleRequest& request, bool reports, void* memory) {
  auto* bytes = static_cast<std::byte*>(memory);
  Workspace workspace;
  workspace.records = static_cast<RowRecord*>(memory);
  const Layout layout = layout_of(request, reports);
  if (reports) {
    workspace.tops = reinterpret_cast<RowRecord*>(bytes + layout.tops);
    workspace.heads = {reinterpret_cast<std::int32_t*>(bytes + layout.head_counts),
                       reinterpret_cast<float*>(bytes + layout.head_values),
                       reinterpret_cast<std::int32_t*>(bytes + layout.head_ids)};
  }
  if (layout.tops == layout.bits) return workspace;
  workspace.edits.bits = reinterpret_cast<EditBits*>(bytes + layout.bits);
  workspace.edits.later = reinterpret_cast<std::uint32_t*>(bytes + layout.later);
  workspace.edits.troubles = reinterpret_cast<std::uint32_t*>(bytes + layout.troubles);
  workspace.edits.values = reinterpret_cast<float*>(bytes + layout.values);
  workspace.edits.places_of_row = places_of(request.logits.vocab);
  return workspace;
}

}  // namespace fairdraw::cuda
