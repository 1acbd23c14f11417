// Lists of ids in a buffer of their own: converts rows that a test states by hand to TokenLists.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/token_lists.h"

namespace fairdraw::suites {

class TokenListRows {
 public:
  explicit TokenListRows(const std::vector<std::vector<std::int32_t>>& rows) {
    ids_ = {kGuard};  // a guard, so that the lists do not begin where the buffer begins
    for (const std::vector<std::int32_t>& row : rows) {
      begins_.push_back(static_cast<std::int64_t>(ids_.size()));
      lengths_.push_back(static_cast<std::int32_t>(row.size()));
      ids_.insert(ids_.end(), row.begin(), row.end());
      ids_.push_back(kGuard);  // a guard, so that the lists are not adjacent
    }
  }

  TokenLists lists() const {
    TokenLists lists;
    lists.data = ids_.data();
    lists.size = static_cast<std::int64_t>(ids_.size());
    lists.begins = {begins_.data(), static_cast<std::int64_t>(begins_.size())};
    lists.lengths = {lengths_.data(), static_cast<std::int64_t>(lengths_.size())};
    return lists;
  }

  std::vector<std::int32_t>& ids() { return ids_; }
  std::vector<std::int64_t>& begins() { return begins_; }
  std::vector<std::int32_t>& lengths() { return lengths_; }

 private:
  static constexpr std::int32_t kGuard = -77;  // not a token, so that a row that reads it fails

  std::vector<std::int32_t> ids_;
  std::vector<std::int64_t> begins_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace fairdraw::suites
