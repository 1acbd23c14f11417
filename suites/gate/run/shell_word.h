// Quotes words of replay lines, which users type into a shell.
#pragma once

#include <string>

namespace fairdraw::suites {

/// Returns `word` as one word of a POSIX shell's command line, in quotes if necessary.
inline std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,/:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace fairdraw::suites
