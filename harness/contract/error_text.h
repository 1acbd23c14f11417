// Makes texts from outside (messages of exceptions and plugins) suitable for people to read.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace fairdraw::harness {

/// The maximum number of bytes of a text in a case's record, so that a report of hundreds of cases
/// opens at once.
inline constexpr std::size_t kLongestText = 2000;

/// Returns the text cut to at most `most` bytes, without splitting a character. A text that was cut
/// states its full length.
std::string cut_text(std::string text, std::size_t most = kLongestText);

/// Returns the message of an exception, cut to the maximum length. A message that only a programmer
/// would understand is replaced by its meaning, such as too little memory.
std::string error_text(const std::exception& error);

}  // namespace fairdraw::harness
