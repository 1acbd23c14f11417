// The file that a plugin is loaded from: what a report says of it, and whether it is still the
// same.
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
  /// Throws UsageError where it cannot be read.
  explicit PluginFile(const std::string& path);

  /// "/home/me/sampler.so, SHA-256 ..., build id ...", or "no build id".
  std::string text() const;

  /// Throws EndOfRun where the file at the path holds other bytes than before. What the system says
  /// of a file is looked at each time, and its bytes where that has changed, or had a moment
  /// before.
  void expect_unchanged();

 private:
  std::string path_, sha256_, build_id_;
  std::mutex mutex_;
  struct stat seen_ {};
  bool settled_ = false;
};

/// Returns text() of each file that this process has loaded plugins from, by the sampler's name.
std::map<std::string, std::string> plugin_files(const std::vector<std::string>& samplers);

/// Has plugin_files() name it.
void note_plugin_file(const std::string& sampler, const PluginFile& file);

/// Finds the build id in an ELF file, in hexadecimal digits; empty: it has none that can be found.
std::string build_id_of(const std::string& path);

}  // namespace fairdraw::harness::plugin
