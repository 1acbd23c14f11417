// Makes samplers of `--sampler plugin:PATH`, which are third-party samplers in shared libraries.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "harness/contract/sampler.h"
#include "harness/plugin/plugin_file.h"
#include "harness/plugin/process.h"

namespace fairdraw::harness::plugin {

inline constexpr const char* kPrefix = "plugin:";

inline bool is_plugin(const std::string& sampler) { return sampler.starts_with(kPrefix); }

/// A factory of samplers from plugins. The loader gets the description of each plugin once; after
/// that, the plugin's file must not change (plugin_file.h). Each sampler starts its own process at
/// its first call, so that a verdict depends on no other case.
class Loader {
 public:
  explicit Loader(Options options) : options_(std::move(options)) {}

  /// Makes the sampler `name`, which is a path after the prefix "plugin:". Throws a UsageError that
  /// names the file and what is wrong with it.
  std::unique_ptr<Sampler> make(const std::string& name);

  /// Returns the description of the sampler that make() found.
  Description describe(const std::string& name);

 private:
  struct Known {
    Description description;
    std::shared_ptr<PluginFile> file;
  };
  Known known(const std::string& name);

  Options options_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;
};

}  // namespace fairdraw::harness::plugin
