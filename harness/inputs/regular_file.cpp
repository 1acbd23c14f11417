#include "harness/inputs/regular_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "harness/contract/usage_error.h"
#include "harness/inputs/open_file.h"

namespace fairdraw::harness {

std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most) {
  const auto refuse = [&path](const std::string& why) {
    throw UsageError(fmt::format("cannot read '{}': {}", path.string(), why));
  };
  const OpenFile file(path);
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse("it is a folder");
  if (!S_ISREG(status.st_mode)) refuse("it is no regular file");
  const auto refuse_size = [&](std::uint64_t size) {
    if (size <= most) return;
    refuse(fmt::format("it has {} bytes or more; at most {} are allowed", size, most));
  };
  refuse_size(static_cast<std::uint64_t>(status.st_size));
  std::string text;
  text.reserve(static_cast<std::size_t>(status.st_size));
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t size = ::read(file.number(), block.data(), block.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) refuse(std::strerror(errno));
    if (size <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(size));
    refuse_size(text.size());  // a file may grow, and the system may not know its size
  }
}

}  // namespace fairdraw::harness
