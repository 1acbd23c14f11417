#include "harness/run/checks/exact/logprob_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/run/calls/kept_answers.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RealLogprobs;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kLargest = static_cast<double>(std::numeric_limits<float>::max());

// Sets the errors of values that this sampler may have. Exact samplers may have errors up to the
// stated bound. Other samplers work in float32: three roundings of the result and its two
// logarithms, the error of the token's own weight and, for logits, a quotient that is computed
// through a reciprocal. A probability below 2^-126 of the largest may be flushed to zero, and then
// a filter may drop the token.
void set_slack(ExpectedLogprobs& expected, LogprobsMode mode, const reference::WeightBound& bound,
               float temperature, bool exact) {
  const RealLogprobs& real = expected.real;
  expected.slack = real.bound;
  expected.may_vanish.assign(real.value.size(), false);
  if (exact || real.order.empty()) return;
  const bool raw = is_raw(mode);
  const double scale = raw || temperature == 0 ? 1 : static_cast<double>(temperature);
  const auto largest =
      static_cast<double>(real.logits[static_cast<std::size_t>(real.order.front())]);
  for (const std::int32_t token : real.order) {
    const auto at = static_cast<std::size_t>(token);
    const double rounding = 3 * 0x1p-24 * std::max(1.0, std::fabs(real.value[at]));
    const double octaves =
        (largest - static_cast<double>(real.logits[at])) / (scale * 0.69314718055994530942);
    expected.may_vanish[at] = !raw && octaves > 126;
    if (!is_logprobs(mode)) {
      expected.slack[at] =
          mode == LogprobsMode::raw_logits ? 0 : 3 * 0x1p-24 * std::fabs(real.value[at]);
      continue;
    }
    const double weight = bound.at(octaves);
    expected.slack[at] +=
        weight < 0.5 ? rounding - std::log1p(-weight) : std::numeric_limits<double>::infinity();
  }
}

std::string compare_value(const ExpectedLogprobs& row, std::int64_t token, float observed) {
  const auto at = static_cast<std::size_t>(token);
  const double expected = row.real.value[at];
  const auto value = static_cast<double>(observed);
  if (expected == kNone ? value == kNone : std::fabs(value - expected) <= row.slack[at]) return {};
  if (row.may_vanish[at] && value == kNone) return {};
  // Beyond the range of float32, samplers that are not exact may return infinity.
  const bool beyond = std::fabs(expected) == kLargest && row.slack[at] > row.real.bound[at];
  if (beyond && std::isinf(observed) && (value > 0) == (expected > 0)) return {};
  return fmt::format("of token {} is {}, expected {:.9g} within {:.1e}", token, observed, expected,
                     row.slack[at]);
}

// A rank is exact if values are exact; otherwise values that are closer than their errors may swap
// ranks.
std::string compare_rank(const ExpectedLogprobs& row, std::int32_t token, RankRule rule, bool exact,
                         std::int32_t observed) {
  const auto at = static_cast<std::size_t>(token);
  std::int32_t low = row.real.rank(token, rule), high = low;
  if (!exact && low > 0) {
    low = 1;
    high = 0;
    for (const std::int32_t other : row.real.order) {
      const auto there = static_cast<std::size_t>(other);
      const double ahead = row.real.value[there] - row.real.value[at];
      const double slack = row.slack[at] + row.slack[there];
      if (ahead > slack) ++low;
      if (ahead >= -slack) ++high;
    }
  }
  if (observed >= low && observed <= high) return {};
  return fmt::format("rank of token {} by {} is {}, expected {}", token, to_string(rule), observed,
                     low == high ? std::to_string(low) : fmt::format("{} to {}", low, high));
}

std::string compare_top(const ExpectedLogprobs& row, bool exact, std::span<const std::int32_t> ids,
                        std::span<const float> values) {
  std::set<std::int32_t> listed;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool there = i < row.real.order.size();
    const std::int32_t expected = there ? row.real.order[i] : -1;
    const std::int32_t id = ids[i];
    const bool vanished = there && row.may_vanish[static_cast<std::size_t>(expected)];
    if (!there || (vanished && id == -1)) {
      if (id == -1 && static_cast<double>(values[i]) == kNone) continue;
      return fmt::format("entry {} of the top {} is token {} with {}; there are {} values", i,
                         ids.size(), id, values[i], row.real.order.size());
    }
    const bool in_vocab = id >= 0 && static_cast<std::size_t>(id) < row.real.value.size();
    bool right = id == expected;
    if (!right && !exact && in_vocab && !listed.contains(id)) {  // two ids may swap places
      const auto a = static_cast<std::size_t>(id), b = static_cast<std::size_t>(expected);
      right = std::fabs(row.real.value[a] - row.real.value[b]) <= row.slack[a] + row.slack[b];
    }
    if (!right) {
      return fmt::format("entry {} of the top {} is token {}, expected {}", i, ids.size(), id,
                         expected);
    }
    listed.insert(id);
    if (const std::string wrong = compare_value(row, id, values[i]); !wrong.empty()) {
      return fmt::format("entry {} of the top {}: the value {}", i, ids.size(), wrong);
    }
  }
  return {};
}

// Judges the reports of an output that has no token.
std::string compare_failed(const Request& request, const AskedLogprobs& asked,
                           const Response& response, std::int64_t output) {
  const auto none = [](float x) { return static_cast<double>(x) == kNone; };
  const auto samples = static_cast<std::size_t>(request.num_samples);
  const auto first = static_cast<std::size_t>(output) * samples;
  for (std::size_t at = first; at < first + samples; ++at) {
    if (!none(response.report_values[at])) {
      return fmt::format("has no token, and a value of {}", response.report_values[at]);
    }
    if (!response.report_ranks.empty() && response.report_ranks[at] != 0) {
      return fmt::format("has no token, and a rank of {}", response.report_ranks[at]);
    }
  }
  const auto top_n = static_cast<std::size_t>(asked.report.top_n);
  for (std::size_t at = static_cast<std::size_t>(output) * top_n;
       at < (static_cast<std::size_t>(output) + 1) * top_n; ++at) {
    if (response.report_top_ids[at] != -1 || !none(response.report_top_values[at])) {
      return fmt::format("has no token, and token {} among the top {}", response.report_top_ids[at],
                         top_n);
    }
  }
  return {};
}

std::string compare_output(const CheckInput& input, const Request& request,
                           const AskedLogprobs& asked, const Response& response,
                           std::int64_t output, const ExpectedLogprobs& expected,
                           std::uint64_t& values) {
  const bool exact = input.exact();
  const auto samples = static_cast<std::size_t>(request.num_samples);
  const auto first = static_cast<std::size_t>(output) * samples;
  for (std::size_t at = first; at < first + samples; ++at) {
    const std::int32_t token = response.tokens[at];
    if (token < 0 || token >= request.vocab) continue;  // because other checks judge such tokens
    ++values;
    const std::string wrong = compare_value(expected, token, response.report_values[at]);
    if (!wrong.empty()) return "value " + wrong;
    if (response.report_ranks.empty()) continue;
    std::string rank =
        compare_rank(expected, token, asked.report.rank_rule, exact, response.report_ranks[at]);
    if (!rank.empty()) return rank;
  }
  const auto top_n = static_cast<std::size_t>(asked.report.top_n);
  const std::size_t top = static_cast<std::size_t>(output) * top_n;
  return compare_top(expected, exact, std::span(response.report_top_ids).subspan(top, top_n),
                     std::span(response.report_top_values).subspan(top, top_n));
}

std::string compare_all(const Request& request, const Response& response, std::int64_t row,
                        const ExpectedLogprobs& expected) {
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    const float observed =
        response.report_all[static_cast<std::size_t>(row * request.vocab + token)];
    if (expected.fails) {
      if (static_cast<double>(observed) == kNone) continue;
      return fmt::format("failed, and of its values that of token {} is {}", token, observed);
    }
    const std::string wrong = compare_value(expected, token, observed);
    if (!wrong.empty()) return "of the whole row, the value " + wrong;
  }
  return {};
}

}  // namespace

LogprobsRow logprobs_row(const CheckInput& input, const Request& request, std::int64_t row,
                         LogprobsMode mode) {
  LogprobsRow result;
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const reference::RealDistribution distribution = distribution_of(input, request, row);
  result.fails = distribution.must_fail;
  result.judged = distribution.must_fail;
  if (distribution.must_fail || !distribution.defined) return result;
  result.temperature = parameters_now(request, row).temperature;
  const std::span<const float> logits(request.row(row), vocab);
  result.raw.assign(logits.begin(), logits.end());
  if (is_raw(mode)) {
    result.judged = true;
    return result;
  }
  result.processed = request.processing.empty() ? result.raw : processed_row(request, row).logits;
  result.kept.assign(vocab, 0);
  if (input.exact()) {
    result.kept = model_of(request, row).mask;
  } else {
    // The processed values of a greedy row differ between engines. A row with an ambiguous token is
    // not judged, because the mass of that token may be negligible while its logarithm is not.
    const bool open = std::ranges::find(distribution.membership, Membership::ambiguous) !=
                      distribution.membership.end();
    for (std::size_t id = 0; id < vocab; ++id) {
      result.kept[id] = distribution.membership[id] == Membership::in;
    }
    if (open || distribution.partly_drawn >= 0 || result.temperature == 0) return result;
  }
  result.judged = true;
  return result;
}

RealLogprobs logprobs_of(const LogprobsRow& row, LogprobsMode mode,
                         const reference::WeightBound& bound) {
  const auto kept_logprobs = [&](std::span<const float> logits, std::span<const std::uint8_t> kept,
                                 float temperature) {
    return kept_answer(
        "real_log_probabilities",
        [&] { return reference::real_log_probabilities(logits, kept, mode, temperature, bound); },
        logits, kept, mode, temperature, bound);
  };
  return is_raw(mode) ? kept_logprobs(row.raw, {}, 1)
                      : kept_logprobs(row.processed, row.kept, row.temperature);
}

ExpectedLogprobs with_slack(const CheckInput& input, const LogprobsRow& row, LogprobsMode mode,
                            const reference::WeightBound& bound, RealLogprobs real) {
  ExpectedLogprobs expected;
  expected.judged = true;
  expected.real = std::move(real);
  set_slack(expected, mode, bound, row.temperature, input.exact());
  return expected;
}

LogprobsComparison compare_logprobs(const CheckInput& input, const Request& request,
                                    const AskedLogprobs& asked, const Response& response,
                                    const std::vector<ExpectedLogprobs>& rows, std::int64_t first) {
  LogprobsComparison comparison;
  const auto parameters = [&request](std::int64_t row) {
    return describe(request.parameters[static_cast<std::size_t>(row)]);
  };
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const ExpectedLogprobs& expected = rows[static_cast<std::size_t>(row)];
    if (!expected.judged) continue;
    ++comparison.rows;
    std::string wrong;
    if (!response.report_all.empty()) wrong = compare_all(request, response, row, expected);
    if (wrong.empty()) continue;
    comparison.wrong = fmt::format("{}: row {} ({}): {}", to_string(asked.report.mode), first + row,
                                   parameters(row), wrong);
    return comparison;
  }
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const ExpectedLogprobs& expected = rows[static_cast<std::size_t>(row)];
    if (!expected.judged) continue;
    ++comparison.outputs;
    const std::string wrong = expected.fails ? compare_failed(request, asked, response, output)
                                             : compare_output(input, request, asked, response,
                                                              output, expected, comparison.values);
    if (wrong.empty()) continue;
    comparison.wrong = fmt::format("{}: output {} of row {} ({}): {}", to_string(asked.report.mode),
                                   output, first + row, parameters(row), wrong);
    return comparison;
  }
  return comparison;
}

}  // namespace fairdraw::harness
