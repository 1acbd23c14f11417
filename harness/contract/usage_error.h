// An error of usage or of input ends the command with exit code 2 and the error's message.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace fairdraw::harness {

/// An error in the way that a user called the command, or in the input. The message of a UsageError
/// names the field, the value and the allowed range.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns "unknown sampler 'cpu:avx3'; did you mean 'cpu:avx2'? Known: ...". The message suggests
/// names that begin with the given name, that it abbreviates, or that it misspells in at most a
/// third of their letters. Without a suggestion the message lists all names: "unknown sampler
/// 'bf16'; known: ...".
std::string unknown_name_message(std::string_view what, std::string_view given,
                                 std::span<const std::string> known);

}  // namespace fairdraw::harness
