// What lies in a call's workspace: records of filtered rows, behind them a processed call's edits,
// and behind those what reports of log-probabilities need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "edit_planes.h"
#include "fairdraw/cuda.h"
#include "filter_rows.h"

namespace fairdraw::cuda {

/// Bytes of a part of a workspace: whole steps of what cudaMalloc aligns to.
constexpr std::int64_t whole_steps(std::int64_t bytes) {
  constexpr std::int64_t kStep = 256;
  return (bytes + kStep - 1) / kStep * kStep;
}

/// Hands out parts of a workspace, one behind the other; without memory it only counts bytes.
class Parts {
 public:
  explicit Parts(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <class T>
  T* take(std::int64_t count) {
    if (count <= 0) return nullptr;
    return reinterpret_cast<T*>(take_bytes(count * static_cast<std::int64_t>(sizeof(T))));
  }
  std::byte* take_bytes(std::int64_t bytes) {
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += whole_steps(bytes);
    return at;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

/// True where a call's rows are processed, or where its processing may be what is wrong with them.
bool is_processed(const LogitsProcessing& processing);

/// The call's parts of a workspace that is large enough.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< absent where the call is not processed
  RowRecord* tops = nullptr;     ///< [rows]; absent where nothing is reported, as are
  RowHeads heads;                ///< these

  static Workspace of(const SampleRequest& request, bool reports, void* memory);
};

}  // namespace fairdraw::cuda
