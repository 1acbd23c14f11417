// Integers returned by Python code under test, one or several per output: tokens, statuses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace fairdraw::python {

/// The expected integers, the array that receives them, and the names that messages use for them.
struct WantedIds {
  std::int64_t outputs;
  std::int64_t samples;  ///< per output
  std::int32_t* ids;     ///< [outputs, samples]
  const char* who;       ///< name of the code that returned the integers
  const char* all = "tokens";
  const char* kind = "token ids";
  const char* one = "id";
  const char* or_instead = "";  ///< description of what else could be returned
};

/// Takes an array of integers or a list, [outputs] or [outputs, samples]. Returns an empty string,
/// or a message that says what was returned instead.
std::string take_ids(nanobind::handle result, const WantedIds& wanted);

}  // namespace fairdraw::python
