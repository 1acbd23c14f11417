// Checks of lists of tokens: of the call (shapes), and of one row's list.
#pragma once

#include <cstdint>
#include <string>

#include "arguments.h"
#include "fairdraw/token_lists.h"

namespace fairdraw {

/// A row's list, checked to lie in its buffer.
struct TokenSpan {
  const std::int32_t* data = nullptr;
  std::int64_t size = 0;
};

/// Lists must be absent, or have one begin and one length a row. Reads no array.
inline Error check_token_lists(const TokenLists& lists, const std::string& name, std::int64_t rows,
                               const std::string& meaning) {
  if (!lists.given()) return {};
  if (lists.size < 0) return out_of_range(name + ".size", std::to_string(lists.size), ">= 0");
  if (lists.data == nullptr && lists.size > 0) {
    return out_of_range(name + ".data", "null", "a pointer to ids");
  }
  if (Error e = check_length(name + ".begins", lists.begins.size, rows, meaning)) return e;
  if (!lists.begins.given() && rows > 0) {
    return out_of_range(name + ".begins", "null", "an array");
  }
  return check_length(name + ".lengths", lists.lengths.size, rows, meaning);
}

/// The list of a row; false where it does not lie in its buffer. Absent lists are empty.
inline bool list_of(const TokenLists& lists, std::int64_t row, TokenSpan& span) {
  span = {};
  if (!lists.given()) return true;
  const std::int64_t begin = lists.begins.data[row];
  const std::int64_t length = lists.lengths.data[row];
  if (length < 0 || begin < 0 || begin > lists.size || length > lists.size - begin) return false;
  span = {lists.data + begin, length};
  return true;
}

/// True where every id of the list is a token.
inline bool all_are_tokens(const TokenSpan& ids, std::int64_t vocab) {
  for (std::int64_t i = 0; i < ids.size; ++i) {
    if (ids.data[i] < 0 || ids.data[i] >= vocab) return false;
  }
  return true;
}

}  // namespace fairdraw
