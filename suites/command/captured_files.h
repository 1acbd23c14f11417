// Captured logits for a run: the files of the command line, or those that ship with the suites.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fairdraw/types.h"
#include "harness/inputs/captured_logits.h"

namespace fairdraw::cli {

/// "float32" | "float16" | "bfloat16"; throws harness::UsageError with the closest name.
DType dtype_from_name(const std::string& name);

/// The suites' data folder; environment variable FAIRDRAW_DATA names another one.
std::string data_folder();

/// Reads one file. `dtype` empty: what the file says; "bfloat16": '<u2' holds bfloat16.
/// Throws harness::UsageError where the file is bad, or of another dtype.
std::shared_ptr<const harness::CapturedLogits> load_captured(const std::string& path,
                                                             const std::string& dtype);

/// Reads `paths`; names must differ, as ids of cases hold them. No paths: the logits of
/// data_folder().
std::vector<std::shared_ptr<const harness::CapturedLogits>> load_all_captured(
    const std::vector<std::string>& paths, const std::string& dtype);

}  // namespace fairdraw::cli
