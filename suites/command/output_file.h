// A file that an option names for a verb's result.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::cli {

/// A path that stands for the standard output.
inline constexpr std::string_view kStandardOutput = "-";

/// At its start a verb makes one of these: what an earlier call left is removed, so that a call
/// that ends early leaves nothing that looks like its own; and a file that cannot be written is an
/// error at once. What is no plain file (a pipe, a device, a link) is left as it is and written
/// through; a plain file that cannot be replaced (it is mounted, or its folder may not be written)
/// is emptied and written through. kStandardOutput: print() prints nothing from then on, so that
/// the result is all that is written there.
class OutputFile {
 public:
  /// An empty `path`: the option is not given, and nothing is written. `inputs` are files that the
  /// verb reads. Throws harness::UsageError, which names `option`: also where another one has the
  /// standard output.
  OutputFile(std::string option, std::string path, const std::vector<std::string>& inputs = {});

  bool wanted() const { return !path_.empty(); }

  /// Writes all of the file, which appears whole or not at all where it is replaced. Throws
  /// harness::UsageError.
  void write(const std::string& text) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;
  bool is_plain() const;
  bool is_standard_output() const { return path_ == kStandardOutput; }

  std::string option_, path_;
  bool through_ = false;  ///< to the file that is there, instead of a new one in its place
};

}  // namespace fairdraw::cli
