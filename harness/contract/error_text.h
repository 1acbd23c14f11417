// Makes texts from outside (exceptions, messages of plugins) fit to be shown to people.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace fairdraw::harness {

/// Maximum bytes of a text that a case keeps, so that a report of hundreds of cases opens at once.
inline constexpr std::size_t kLongestText = 2000;

/// Returns the text cut to at most `most` bytes without splitting a character. A text that was cut
/// states its full length.
std::string cut_text(std::string text, std::size_t most = kLongestText);

/// Returns the message of an exception, cut. A message that only a programmer understands is
/// replaced by its meaning, such as too little memory.
std::string error_text(const std::exception& error);

}  // namespace fairdraw::harness
