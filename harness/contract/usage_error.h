// Bad usage or bad input: the command ends with exit code 2 and this message.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fairdraw::harness {

/// The message names the field, the value and the allowed range.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// "unknown sampler 'cpu:avx3'; did you mean 'cpu:avx2'? Known: ...": names that begin with what
/// was given, that it abbreviates, or that it misspells in a third of its letters at most. Where
/// there is none: "unknown sampler 'bf16'; known: ...".
std::string unknown_name_message(std::string_view what, std::string_view given,
                                 std::span<const std::string> known);

}  // namespace fairdraw::harness
