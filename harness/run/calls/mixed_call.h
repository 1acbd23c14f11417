// The implementation of mixed_sampler.h for calls of any kind: lets two samplers answer one call.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "harness/contract/call_arrays.h"
#include "harness/run/calls/mixed_sampler.h"

namespace fairdraw::harness {

/// Copies of the result arrays of a call, with the contents that these had before the call.
template <class Call>
class OwnResults {
 public:
  explicit OwnResults(const Call& call) : call_(call) {
    CallArrays<Call>::each(call, [&](auto field, const CallArray& array) {
      if constexpr (is_result<decltype(field(call_))>) {
        if (field(call) == nullptr || array.bytes() == 0) return;
        const auto* const first = reinterpret_cast<const std::byte*>(field(call));
        copies_.emplace_back(first, first + array.bytes());
        field(call_) =
            reinterpret_cast<std::remove_cvref_t<decltype(field(call_))>>(copies_.back().data());
      }
    });
  }
  const Call& call() const { return call_; }

 private:
  Call call_;
  std::vector<std::vector<std::byte>> copies_;
};

/// Returns whether an array has one result per row; all other arrays have one result per output.
inline bool is_of_rows(std::string_view array) {
  constexpr std::array<std::string_view, 4> kOfRows = {"mask", "probs", "report_all", "result"};
  return std::ranges::find(kOfRows, array) != kOfRows.end();
}

template <class Call, class Ask>
std::string MixedSampler::mix(const Call& call, const std::vector<RowFacts>& rows,
                              std::int64_t outputs, const std::int32_t* indices, bool asks_both,
                              const Ask& ask) {
  std::vector<bool> own;
  for (const RowFacts& row : rows) own.push_back(where_(row));
  const auto by_sampler = static_cast<std::size_t>(std::ranges::count(own, true));
  const bool is_all_own = by_sampler == own.size();
  if (is_all_own && (!asks_both || right_ == nullptr)) return ask(*sampler_, call);
  if (by_sampler == 0 && !asks_both) return ask(*right_, call);
  // The right sampler runs first, because the other sampler may overwrite the arrays of the call.
  const OwnResults<Call> right(call);
  std::string refused = ask(*right_, right.call());
  if (refused.empty()) refused = ask(*sampler_, call);
  if (!refused.empty()) return refused;
  CallArrays<Call>::each(call, [&](auto field, const CallArray& array) {
    if constexpr (is_result<decltype(field(call))>) {
      if (field(call) == nullptr || array.bytes() == 0) return;
      const bool of_rows = is_of_rows(array.name);
      const std::int64_t width = of_rows ? array.width : array.rows * array.width / outputs;
      const std::int64_t stride = of_rows ? array.stride : width;
      auto* const to = reinterpret_cast<std::byte*>(field(call));
      const auto* const from = reinterpret_cast<const std::byte*>(field(right.call()));
      for (std::int64_t at = 0; at < (of_rows ? array.rows : outputs); ++at) {
        const std::int64_t row = of_rows || indices == nullptr ? at : indices[at];
        const bool is_row = row >= 0 && row < static_cast<std::int64_t>(own.size());
        if (!is_row || own[static_cast<std::size_t>(row)]) continue;
        std::memcpy(to + at * stride * array.value_bytes, from + at * stride * array.value_bytes,
                    static_cast<std::size_t>(width * array.value_bytes));
      }
    }
  });
  return {};
}

}  // namespace fairdraw::harness
