// The file that a plugin is loaded from: how a report identifies the file, and whether it has
// changed.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fairdraw::harness::plugin {

class PluginFile {
 public:
  /// Reads the file. Throws UsageError if the file cannot be read.
  explicit PluginFile(const std::string& path);

  /// Returns a text such as "/home/me/sampler.so, SHA-256 ..., build id ...", or "... no build id".
  std::string text() const;

  /// Throws EndOfRun if the file at the path has other bytes than before. The function compares the
  /// file's metadata each time, and its bytes if the metadata have changed or were too recent to be
  /// relied on.
  void expect_unchanged();

 private:
  std::string path_, sha256_, build_id_;
  std::mutex mutex_;
  struct stat seen_ {};
  bool settled_ = false;
};

/// Returns text() of each file from which this process has loaded plugins, by the sampler's name.
std::map<std::string, std::string> plugin_files(const std::vector<std::string>& samplers);

/// Adds a file to the result of plugin_files().
void note_plugin_file(const std::string& sampler, const PluginFile& file);

/// Returns the build id of an ELF file in hexadecimal digits, or an empty string if the file has
/// none.
std::string build_id_of(const std::string& path);

}  // namespace fairdraw::harness::plugin
