#include "reference/stop_model.h"

#include <algorithm>

namespace fairdraw::reference {
namespace {

bool ends_with(const std::vector<std::int32_t>& text, const std::vector<std::int32_t>& end) {
  return text.size() >= end.size() && std::equal(end.rbegin(), end.rend(), text.rbegin());
}

/// Returns the reason for which an output with this text ends, given that the output did not end
/// earlier.
StopAnswer answer_for(const std::vector<std::int32_t>& text, const StopRules& rules) {
  const auto length = static_cast<std::int64_t>(text.size());
  const bool may_stop = length >= rules.min_tokens;
  if (may_stop && !rules.ignore_eos && text.back() == rules.eos_id) {
    return {FinishReason::eos, 0, -1, 1};
  }
  for (std::size_t i = 0; may_stop && i < rules.stop_ids.size(); ++i) {
    if (text.back() == rules.stop_ids[i]) {
      return {FinishReason::stop_id, 0, static_cast<std::int32_t>(i), 1};
    }
  }
  for (std::size_t i = 0; may_stop && i < rules.stop_sequences.size(); ++i) {
    if (ends_with(text, rules.stop_sequences[i])) {
      return {FinishReason::stop_sequence, 0, static_cast<std::int32_t>(i),
              static_cast<std::int32_t>(rules.stop_sequences[i].size())};
    }
  }
  if (length >= rules.max_tokens) return {FinishReason::length, 0, -1, 0};
  return {};
}

}  // namespace

StopAnswer stop_model(const std::vector<std::int32_t>& output,
                      const std::vector<std::int32_t>& step_tokens, const StopRules& rules) {
  if (static_cast<std::int64_t>(output.size()) >= rules.max_tokens) {
    return {FinishReason::length, 0, -1, 0};
  }
  std::vector<std::int32_t> text = output;
  for (std::size_t i = 0; i < step_tokens.size(); ++i) {
    text.push_back(step_tokens[i]);
    StopAnswer answer = answer_for(text, rules);
    if (answer.reason == FinishReason::none) continue;
    answer.kept = static_cast<std::int32_t>(i + 1);
    return answer;
  }
  return {FinishReason::none, static_cast<std::int32_t>(step_tokens.size()), -1, 0};
}

}  // namespace fairdraw::reference
