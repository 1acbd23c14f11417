// Texts from outside (exceptions, what plugins say) as people may be shown them.
#pragma once

#include <cstddef>
#include <exception>
#include <string>

namespace fairdraw::harness {

/// Bytes of a text that a case keeps: a report of hundreds of cases still opens at once.
inline constexpr std::size_t kLongestText = 2000;

/// At most `most` bytes of the text, without half a character at the end, and how much it was.
std::string cut_text(std::string text, std::size_t most = kLongestText);

/// The sentence of an exception, cut. Of one that only a programmer can read, what it
/// means: too little memory, say.
std::string error_text(const std::exception& error);

}  // namespace fairdraw::harness
