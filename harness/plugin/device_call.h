// A call of a plugin that takes device pointers.
#pragma once

#include <functional>
#include <string>

#include "harness/contract/batch.h"

namespace fairdraw::harness::plugin {

/// Copies the arrays of a call to the device and its results back. Device memory is not shared
/// between processes: this runs where the plugin runs.
class DeviceCall {
 public:
  using Batch = std::function<std::string(const fairdraw_batch&)>;
  using Chain = std::function<std::string(const fairdraw_chain&)>;
  using Speculation = std::function<std::string(const fairdraw_verification&)>;

  /// `call` gets the batch with device pointers, and returns an empty string or why it refuses. So
  /// does this; without a GPU it says that.
  std::string run(const fairdraw_batch& batch, const Batch& call) const;
  std::string run_chain(const fairdraw_chain& chain, const Chain& call) const;
  std::string run_speculation(const fairdraw_verification& speculation,
                              const Speculation& call) const;
};

}  // namespace fairdraw::harness::plugin
