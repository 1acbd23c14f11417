// The process that holds a plugin: `fairdraw plugin-host`, started by fairdraw itself.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw::harness::plugin {

/// Loads the plugin at `path` and answers commands on kSocketFile until the judge is gone. Arrays
/// are mapped from kArraysFile at `address`. Memory beyond what the process has at its start is
/// limited to `mebibytes`; 0: not limited. Returns an exit code; throws nothing.
int host_plugin(const std::string& path, std::uint64_t address, std::uint64_t mebibytes);

}  // namespace fairdraw::harness::plugin
