// Integers returned by Python code under test, one or several per output: tokens, statuses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace fairdraw::python {

/// The expected integers, their destination, and the names that messages use for them.
struct WantedIds {
  std::int64_t outputs;
  std::int64_t samples;  ///< per output
  std::int32_t* ids;     ///< [outputs, samples]
  const char* who;       ///< the code that returned them
  const char* all = "tokens";
  const char* kind = "token ids";
  const char* one = "id";
  const char* or_instead = "";  ///< what else could be returned
};

/// Takes an array of integers or a list, [outputs] or [outputs, samples]. Returns an empty string,
/// or a message that says what came instead.
std::string take_ids(nanobind::handle result, const WantedIds& wanted);

}  // namespace fairdraw::python
