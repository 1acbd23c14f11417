#include "workspace.h"

#include <cstddef>

namespace fairdraw::cuda {
namespace {

constexpr std::int64_t kStep = 256;  // what cudaMalloc gives

std::int64_t whole_steps(std::int64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

std::int64_t rows_of(const SampleRequest& request) {
  return request.logits.rows > 0 ? request.logits.rows : 0;
}

/// Where each part begins, in bytes; `end`: of the last.
struct Layout {
  std::int64_t bits, later, troubles, values, end;
};

Layout layout_of(const SampleRequest& request) {
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
  return layout_of(request).end;
}

Workspace Workspace::of(const SampleRequest& request, void* memory) {
  auto* bytes = static_cast<std::byte*>(memory);
  Workspace workspace;
  workspace.records = static_cast<RowRecord*>(memory);
  const Layout layout = layout_of(request);
  if (layout.end == layout.bits) return workspace;
  workspace.edits.bits = reinterpret_cast<EditBits*>(bytes + layout.bits);
  workspace.edits.later = reinterpret_cast<std::uint32_t*>(bytes + layout.later);
  workspace.edits.troubles = reinterpret_cast<std::uint32_t*>(bytes + layout.troubles);
  workspace.edits.values = reinterpret_cast<float*>(bytes + layout.values);
  workspace.edits.places_of_row = places_of(request.logits.vocab);
  return workspace;
}

}  // namespace fairdraw::cuda
