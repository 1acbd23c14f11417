// All results of a call of `sample`, and the differences between two calls.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/owned_call.h"

namespace fairdraw::suites {

/// Every result, filled beforehand with a pattern, so that values that must not change are compared
/// too.
struct EveryOutput {
  std::vector<std::int32_t> tokens, support_size, ranks, top_ids;
  std::vector<RowStatus> statuses;
  std::vector<float> logprob, logprob_filtered, values, top_values, probs, all;
  std::vector<std::uint32_t> mask;
  LogprobsMode mode = LogprobsMode::raw_logprobs;
  RankRule rank_rule = RankRule::position;
  std::int32_t top_n = 0;

  EveryOutput(const harness::OwnedCall& call, std::uint64_t number) {
    const auto outputs = static_cast<std::size_t>(call.outputs());
    const std::size_t samples = outputs * static_cast<std::size_t>(call.num_samples);
    const auto values_of_rows = static_cast<std::size_t>(call.rows * call.vocab);
    mode = static_cast<LogprobsMode>(number % 4);
    rank_rule = static_cast<RankRule>(number / 4 % 2);
    top_n = static_cast<std::int32_t>(number / 8 % 3 == 0 ? 0 : number % 128 + 1);
    tokens.assign(samples, -77);
    statuses.assign(outputs, static_cast<RowStatus>(-77));
    support_size.assign(outputs, -77);
    logprob.assign(samples, -77);
    logprob_filtered = values = logprob;
    ranks.assign(samples, -77);
    top_ids.assign(outputs * static_cast<std::size_t>(top_n), -77);
    top_values.assign(top_ids.size(), -77);
    probs.assign(values_of_rows, -77);
    all = probs;
    mask.assign(static_cast<std::size_t>(call.rows * ((call.vocab + 31) / 32)), 0x5a5a5a5aU);
  }

  SampleResult result(const harness::OwnedCall& call) {
    const auto view = [](auto& values_) {
      return View(values_.data(), static_cast<std::int64_t>(values_.size()));
    };
    SampleResult result;
    result.tokens = view(tokens);
    result.statuses = view(statuses);
    result.support_size = view(support_size);
    result.logprob = view(logprob);
    result.logprob_filtered = view(logprob_filtered);
    result.mask = {mask.data(), call.rows, (call.vocab + 31) / 32};
    result.probs = {probs.data(), call.rows, call.vocab};
    result.logprobs.mode = mode;
    result.logprobs.rank_rule = rank_rule;
    result.logprobs.top_n = top_n;
    result.logprobs.values = view(values);
    result.logprobs.ranks = view(ranks);
    result.logprobs.top_ids = view(top_ids);
    result.logprobs.top_values = view(top_values);
    result.logprobs.all = {all.data(), call.rows, call.vocab};
    return result;
  }

  /// Removes the results that depend on survivors, not on tokens alone. Without these results, the
  /// call can draw from a nucleus that is wider than the candidates without knowing its threshold.
  static void leave_out_survivors(SampleResult& result) {
    result.support_size = {};
    result.logprob_filtered = {};
    result.mask = {};
    result.probs = {};
    if (!is_raw(result.logprobs.mode)) result.logprobs.mode = LogprobsMode::raw_logprobs;
  }

  /// Returns the name of the first array that differs from the other call's, bit for bit; empty:
  /// none.
  std::string difference_from(const EveryOutput& other) const {
    std::string found;
    const auto compare = [&found](const char* name, const auto& mine, const auto& theirs) {
      for (std::size_t i = 0; i < mine.size() && found.empty(); ++i) {
        if (std::memcmp(&mine[i], &theirs[i], sizeof(mine[i])) == 0) continue;
        found = std::string(name) + "[" + std::to_string(i) + "] is " +
                std::to_string(static_cast<double>(mine[i])) + ", not " +
                std::to_string(static_cast<double>(theirs[i]));
      }
    };
    const auto numbers = [](const std::vector<RowStatus>& all_statuses) {
      std::vector<std::int32_t> plain;
      for (const RowStatus status : all_statuses)
        plain.push_back(static_cast<std::int32_t>(status));
      return plain;
    };
    compare("statuses", numbers(statuses), numbers(other.statuses));
    compare("tokens", tokens, other.tokens);
    compare("support_size", support_size, other.support_size);
    compare("mask", mask, other.mask);
    compare("logprob", logprob, other.logprob);
    compare("logprob_filtered", logprob_filtered, other.logprob_filtered);
    compare("probs", probs, other.probs);
    compare("values", values, other.values);
    compare("ranks", ranks, other.ranks);
    compare("top_ids", top_ids, other.top_ids);
    compare("top_values", top_values, other.top_values);
    compare("all", all, other.all);
    return found;
  }
};

}  // namespace fairdraw::suites
