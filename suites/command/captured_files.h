// Captured logits for a run: from files of the command line, or those that ship with the suites.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/captured_logits.h"

namespace fairdraw::cli {

/// Returns the dtype of "float32", "float16" or "bfloat16". Throws harness::UsageError with the
/// closest name for other texts.
DType dtype_from_name(const std::string& name);

/// Returns the suites' data folder, or the one that environment variable FAIRDRAW_DATA names.
std::string data_folder();

/// Reads one file. An empty `dtype` means the dtype of the file; with "bfloat16" a '<u2' file holds
/// bfloat16. Throws harness::UsageError if the file is bad or has another dtype.
std::shared_ptr<const harness::CapturedLogits> load_captured(const std::string& path,
                                                             const std::string& dtype);

/// Reads `paths`, or the logits of data_folder() without paths. File names must differ, because ids
/// of cases contain them.
std::vector<std::shared_ptr<const harness::CapturedLogits>> load_all_captured(
    const std::vector<std::string>& paths, const std::string& dtype);

}  // namespace fairdraw::cli
