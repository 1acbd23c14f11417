// Reads whole text files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fairdraw::harness {

/// Reads a whole file. Throws a UsageError that names the file if the file cannot be read, is not a
/// regular file (a pipe or a device may never end), or has more than `most` bytes.
std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most);

}  // namespace fairdraw::harness
