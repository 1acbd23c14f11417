// Files of text that are read whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fairdraw::harness {

/// All of a file. Throws UsageError, which names it: it cannot be read, is no regular file (a pipe
/// or a device may never end), or has more than `most` bytes.
std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most);

}  // namespace fairdraw::harness
