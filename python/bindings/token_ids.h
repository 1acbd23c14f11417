// Integers that Python code under test returns, one or several an output: tokens, statuses.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

namespace fairdraw::python {

/// What is asked for, where it goes, and by which names a message calls it.
struct WantedIds {
  std::int64_t outputs;
  std::int64_t samples;  ///< of each output
  std::int32_t* ids;     ///< [outputs, samples]
  const char* who;       ///< that returned them
  const char* all = "tokens";
  const char* kind = "token ids";
  const char* one = "id";
  const char* or_instead = "";  ///< what could be returned too
};

/// Takes an array of integers or a list, [outputs] or [outputs, samples]. Returns an empty string,
/// or what came instead.
std::string take_ids(nanobind::handle result, const WantedIds& wanted);

}  // namespace fairdraw::python
