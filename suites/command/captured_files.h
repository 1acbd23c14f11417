// Captured logits for a run: from files that the command line names, or those that ship with the
// suites.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/captured_logits.h"

namespace fairdraw::cli {

/// Returns the dtype named "float32", "float16" or "bfloat16". Throws harness::UsageError with the
/// closest name for any other text.
DType dtype_from_name(const std::string& name);

/// Returns the suites' data folder, or the folder that the environment variable FAIRDRAW_DATA
/// names.
std::string data_folder();

/// Reads one file. If `dtype` is empty, the file's own dtype counts; with "bfloat16", a file of
/// type '<u2' holds bfloat16. Throws harness::UsageError if the file is not valid or has another
/// dtype.
std::shared_ptr<const harness::CapturedLogits> load_captured(const std::string& path,
                                                             const std::string& dtype);

/// Reads the files `paths`, or the logits of data_folder() if there are no paths. The names of the
/// files must differ, because ids of cases contain these names.
std::vector<std::shared_ptr<const harness::CapturedLogits>> load_all_captured(
    const std::vector<std::string>& paths, const std::string& dtype);

}  // namespace fairdraw::cli
