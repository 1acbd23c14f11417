// The file that a plugin is loaded from: how a report identifies it, and whether it has changed.
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

  /// Returns "/home/me/sampler.so, SHA-256 ..., build id ...", or "... no build id".
  std::string text() const;

  /// Throws EndOfRun if the file at the path holds other bytes than before. Compares the file's
  /// metadata each time, and its bytes if the metadata has changed or was too recent to be relied
  /// on.
  void expect_unchanged();

 private:
  std::string path_, sha256_, build_id_;
  std::mutex mutex_;
  struct stat seen_ {};
  bool settled_ = false;
};

/// Returns text() of each file that this process has loaded plugins from, by sampler name.
std::map<std::string, std::string> plugin_files(const std::vector<std::string>& samplers);

/// Registers a file for plugin_files().
void note_plugin_file(const std::string& sampler, const PluginFile& file);

/// Finds the build id of an ELF file, in hexadecimal digits; empty if the file has none.
std::string build_id_of(const std::string& path);

}  // namespace fairdraw::harness::plugin
