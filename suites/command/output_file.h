// A file for a verb's result, named by an option.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::cli {

/// Path that stands for the standard output.
inline constexpr std::string_view kStandardOutput = "-";

/// An output file, made at the start of a verb. The constructor removes an earlier file, so that a
/// call that ends early leaves nothing that looks like its own result, and fails at once if the
/// file cannot be written. A path that is not a plain file (a pipe, a device, a link) is kept and
/// written through. A plain file that cannot be replaced (it is mounted, or its folder is
/// read-only) is emptied and written through. kStandardOutput disables print(), so that stdout
/// contains only the result.
class OutputFile {
 public:
  /// An empty `path` means that the option is not given and nothing is written. `inputs` are files
  /// that the verb reads. Throws harness::UsageError that names `option`, also if another option
  /// already has the standard output.
  OutputFile(std::string option, std::string path, const std::vector<std::string>& inputs = {});

  bool wanted() const { return !path_.empty(); }

  /// Writes the file, atomically if it is replaced. Throws harness::UsageError.
  void write(const std::string& text) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;
  bool is_plain() const;
  bool is_standard_output() const { return path_ == kStandardOutput; }

  std::string option_, path_;
  bool through_ = false;  ///< whether to write into the existing file instead of replacing it
};

}  // namespace fairdraw::cli
