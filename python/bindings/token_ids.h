// Reads integers that Python code under test returns, one or several per output: tokens or
// statuses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace fairdraw::python {

/// The integers that are expected, the array that receives them, and their names in messages.
struct WantedIds {
  std::int64_t outputs;
  std::int64_t samples;  ///< per output
  std::int32_t* ids;     ///< [outputs, samples]
  const char* who;       ///< name of the code that returned the integers
  const char* all = "tokens";
  const char* kind = "token ids";
  const char* one = "id";
  const char* or_instead = "";  ///< description of other results that are allowed
};

/// Takes an array of integers or a list, [outputs] or [outputs, samples]. Returns an empty string,
/// or a message that describes a result of another kind.
std::string take_ids(nanobind::handle result, const WantedIds& wanted);

}  // namespace fairdraw::python
