#include "suites/command/captured_files.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/contract/usage_error.h"
#include "harness/inputs/npy.h"

namespace fairdraw::cli {

using harness::CapturedLogits;
using harness::UsageError;

std::string data_folder() {
  const char* const chosen = std::getenv("FAIRDRAW_DATA");
  return chosen != nullptr && *chosen != '\0' ? chosen : FAIRDRAW_DATA_DIR;
}

DType dtype_from_name(const std::string& name) {
  constexpr std::array kAll = {DType::float32, DType::float16, DType::bfloat16};
  std::vector<std::string> names;
  for (const DType dtype : kAll) {
    if (name == to_string(dtype)) return dtype;
    names.emplace_back(to_string(dtype));
  }
  throw UsageError(harness::unknown_name_message("dtype", name, names));
}

std::shared_ptr<const CapturedLogits> load_captured(const std::string& path,
                                                    const std::string& dtype) {
  const bool bfloat16 = !dtype.empty() && dtype_from_name(dtype) == DType::bfloat16;
  auto captured = std::make_shared<CapturedLogits>(harness::load_npy(path, bfloat16));
  if (!dtype.empty() && captured->dtype != dtype_from_name(dtype)) {
    throw UsageError(fmt::format("--dtype: {} is given, but {} holds {}", dtype, path,
                                 to_string(captured->dtype)));
  }
  return captured;
}

std::vector<std::shared_ptr<const CapturedLogits>> load_all_captured(
    const std::vector<std::string>& paths, const std::string& dtype) {
  std::vector<std::shared_ptr<const CapturedLogits>> all;
  if (paths.empty()) {
    if (!dtype.empty()) {
      throw UsageError(fmt::format("--dtype: {} is given without --logits, whose files it is for",
                                   to_string(dtype_from_name(dtype))));
    }
    const std::filesystem::path folder(data_folder());
    all.push_back(load_captured(folder / "lm_logits_f32.npy", ""));
    all.push_back(load_captured(folder / "lm_logits_bf16_as_u16.npy", "bfloat16"));
    return all;
  }
  std::set<std::string> names;
  for (const std::string& path : paths) {
    all.push_back(load_captured(path, dtype));
    if (!names.insert(all.back()->name).second) {
      throw UsageError(
          fmt::format("--logits: two files are named '{}'; names must differ", all.back()->name));
    }
  }
  return all;
}

}  // namespace fairdraw::cli
