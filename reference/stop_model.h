// A second implementation of the end of a request: the model checks every criterion for every token
// of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/stop_criteria.h"

namespace fairdraw::reference {

/// The criteria that end a request, as plain lists.
struct StopRules {
  std::int32_t eos_id = -1;
  bool ignore_eos = false;
  std::vector<std::int32_t> stop_ids;
  std::vector<std::vector<std::int32_t>> stop_sequences;
  std::int32_t min_tokens = 0;
  std::int32_t max_tokens = kNoMaxTokens;
};

struct StopAnswer {
  FinishReason reason = FinishReason::none;
  std::int32_t kept = 0, matched = -1, matched_length = 0;
  bool operator==(const StopAnswer&) const = default;
};

/// Returns the outcome of a step that adds these tokens to the whole `output`.
StopAnswer stop_model(const std::vector<std::int32_t>& output,
                      const std::vector<std::int32_t>& step_tokens, const StopRules& rules);

}  // namespace fairdraw::reference
