// Loads a plugin's shared library into this process, gets its description, and calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/plugin_abi.h"
#include "harness/contract/sampler.h"

namespace fairdraw::harness::plugin {

struct PluginCall;  // call_kind.h

/// The description that a plugin gives of itself. Each text of the description is on one line
/// (one_line.h).
struct Description {
  std::string name, version, semantics, overrides;
  std::uint64_t abilities = 0, randomness = 0;
  std::uint32_t pointers = 0;
  bool samples = true;  ///< false if the plugin has no fairdraw_plugin_run
  friend bool operator==(const Description&, const Description&) = default;
};

/// Translates a plugin's description to the terms of the harness. The argument `sampler_name` is
/// that of the option --sampler. Throws UsageError if the description has an unknown profile,
/// override, ability, or kind of pointers.
SamplerDescription to_sampler_description(const Description& description,
                                          const std::string& sampler_name);

/// Returns the bits for the abilities and promises of a sampler, as the reverse of
/// to_sampler_description().
std::uint64_t ability_bits(const SamplerDescription& sampler);
std::uint64_t promise_bits(const SamplerDescription& sampler);
/// True if the sampler declares an operation on rows.
bool has_operations(const SamplerDescription& sampler);

/// Returns the names of the abilities that a sampler declares, separated by spaces.
std::string ability_names(const SamplerDescription& sampler);

class Library {
 public:
  /// Loads the library. Throws a UsageError that names the file if the library cannot be loaded,
  /// lacks a symbol, was built for another version of the ABI, or does not describe itself.
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Description& description() const { return description_; }

  /// Runs a call. Returns an empty string, or the reason why the call was refused. The arrays are
  /// in host memory; if the plugin takes device pointers, this function copies the arrays to the
  /// device and back.
  std::string run(const PluginCall& call) const;

 private:
  void* symbol(const char* name) const;  ///< null if the library has no such symbol
  void* needed_symbol(const char* name) const;
  void describe();

  std::string path_;
  void* handle_ = nullptr;
  std::vector<void*> functions_;  ///< indexed by kind of call; null if there is no function
  Description description_;
};

/// Throws UsageError if there is no readable file at `path`.
void expect_file(const std::string& path);

}  // namespace fairdraw::harness::plugin
