// The file for a verb's result, which an option names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::cli {

/// Path that stands for the standard output.
inline constexpr std::string_view kStandardOutput = "-";

/// The file for a verb's result, which is made at the start of the verb. The constructor removes an
/// earlier file, so that a call that ends early leaves nothing that looks like its own result. The
/// constructor fails at once if the file cannot be written. If the path is not a plain file (but a
/// pipe, a device or a link), it is kept, and the result is written into it. A plain file that
/// cannot be replaced (because it is mounted, or its folder is read-only) is emptied and written
/// into. kStandardOutput disables print(), so that stdout has the result alone.
class OutputFile {
 public:
  /// An empty `path` means that the option is not given, and nothing is written. `inputs` are the
  /// files that the verb reads. Throws harness::UsageError that names `option`, also if another
  /// option already uses the standard output.
  OutputFile(std::string option, std::string path, const std::vector<std::string>& inputs = {});

  bool wanted() const { return !path_.empty(); }

  /// Writes the file; a file that is replaced changes atomically. Throws harness::UsageError.
  void write(const std::string& text) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;
  bool is_plain() const;
  bool is_standard_output() const { return path_ == kStandardOutput; }

  std::string option_, path_;
  bool through_ = false;  ///< true if the text is written into the existing file, which is not
                          ///< replaced
};

}  // namespace fairdraw::cli
