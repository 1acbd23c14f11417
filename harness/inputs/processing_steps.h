// The steps of logits processing by name, so that a judge can leave one out.
#pragma once

#include <span>
#include <string>

#include "reference/processing_model.h"

namespace fairdraw::harness {

/// A step of processing. Without it a row has the same processing, but for this step.
struct ProcessingStep {
  const char* name;         ///< in lists of steps that a sampler lacks
  const char* description;  ///< in messages
  void (*leave_out)(reference::RowProcessing& row);
};

/// Returns all steps, in the order in which a report names them.
std::span<const ProcessingStep> processing_steps();

/// Leaves the named steps out of a row. Names that are no step are ignored, because whoever reads
/// the names checks them.
void leave_out(std::span<const std::string> names, reference::RowProcessing& row);

}  // namespace fairdraw::harness
