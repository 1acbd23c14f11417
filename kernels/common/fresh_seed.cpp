#include "fairdraw/fresh_seed.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace fairdraw {

std::uint64_t fresh_seed() {
  std::uint64_t seed = 0;
  if (::getentropy(&seed, sizeof(seed)) != 0) {
    throw std::system_error(errno, std::generic_category(), "a fresh seed: getentropy");
  }
  return seed;
}

}  // namespace fairdraw
