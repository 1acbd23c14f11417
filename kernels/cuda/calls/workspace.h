// What lies in a call's workspace: records of filtered rows, behind them a processed call's edits,
// and behind those what reports of log-probabilities need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/processing/edit_planes.h"
#include "cuda/row_filter/filter_rows.h"
#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Hands out parts of a workspace, one behind the other; without memory it only counts bytes.
class Parts {
 public:
  explicit Parts(void* memory) : memory_(static_cast<std::byte*>(memory)) {}

  template <class T>
  T* take(std::int64_t count) {
    if (count <= 0) return nullptr;
    std::byte* at = memory_ == nullptr ? nullptr : memory_ + bytes_;
    const std::int64_t size = count * static_cast<std::int64_t>(sizeof(T));
    bytes_ += (size + kStep - 1) / kStep * kStep;
    return reinterpret_cast<T*>(at);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kStep = 256;  // what cudaMalloc aligns to
  std::byte* memory_;
  std::int64_t bytes_ = 0;
};

/// Room for the heads of rows.
RowHeads heads_of(std::int64_t rows, Parts& parts);

/// True where a call's rows are processed, or where its processing may be what is wrong with them.
bool is_processed(const LogitsProcessing& processing);

/// A call's parts of a workspace.
struct Workspace {
  RowRecord* records = nullptr;  ///< [rows]
  EditPlanes edits;              ///< absent where the call is not processed
  RowRecord* tops = nullptr;     ///< [rows]; absent where nothing is reported, as are
  RowHeads heads;                ///< these

  static Workspace of(const SampleRequest& request, bool reports, Parts& parts);
};

}  // namespace fairdraw::cuda
