// Runs the process that holds a plugin: `fairdraw plugin-host`, which fairdraw itself starts.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw::harness::plugin {

/// Loads the plugin at `path`, and answers commands on kSocketFile until the judge is gone. Arrays
/// are mapped from kArraysFile at the address `address`. The process may take `mebibytes` of memory
/// beyond its use at the start; 0 means no limit. Returns an exit code, and does not throw.
int host_plugin(const std::string& path, std::uint64_t address, std::uint64_t mebibytes);

}  // namespace fairdraw::harness::plugin
