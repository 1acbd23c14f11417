// A plugin's shared library, in this process: loaded, described, called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/plugin_abi.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness::plugin {

struct PluginCall;  // call_kind.h

/// What a plugin says of itself: its texts each on one line (one_line.h).
struct Description {
  std::string name, version, semantics, overrides;
  std::uint64_t abilities = 0, randomness = 0;
  std::uint32_t pointers = 0;
  bool samples = true;  ///< false: it has no fairdraw_plugin_run
  friend bool operator==(const Description&, const Description&) = default;
};

/// As the harness says it: `sampler_name` is what --sampler was given. Throws UsageError for a
/// profile, an override, an ability or a place of pointers that there is none of.
SamplerDescription to_sampler_description(const Description& description,
                                          const std::string& sampler_name);

/// The bits that to_sampler_description() makes the same abilities and promises of.
std::uint64_t ability_bits(const SamplerDescription& sampler);
std::uint64_t promise_bits(const SamplerDescription& sampler);
/// True where it declares an operation on rows.
bool has_operations(const SamplerDescription& sampler);

/// The names of the abilities that a sampler declares, separated by blanks.
std::string ability_names(const SamplerDescription& sampler);

class Library {
 public:
  /// Throws UsageError, which names the file, where it cannot be loaded, lacks a symbol, was built
  /// for another version of the ABI, or will not describe itself.
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Description& description() const { return description_; }

  /// Returns an empty string, or why the call was refused. Arrays are host memory; where the plugin
  /// takes device pointers they are copied there and back.
  std::string run(const PluginCall& call) const;

 private:
  void* symbol(const char* name) const;  ///< null where there is none
  void* needed_symbol(const char* name) const;
  void describe();

  std::string path_;
  void* handle_ = nullptr;
  std::vector<void*> functions_;  ///< by kind of call; null: it has none
  Description description_;
};

/// Throws UsageError where there is no file at `path`, or none that can be read.
void expect_file(const std::string& path);

}  // namespace fairdraw::harness::plugin
