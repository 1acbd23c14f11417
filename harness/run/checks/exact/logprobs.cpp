// Log-probabilities in the form in which engines report them: modes, ranks, the top n, whole rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "reference/log_probabilities.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RealLogprobs;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr double kLargest = static_cast<double>(std::numeric_limits<float>::max());

// One call: how it asks.
struct Asked {
  WantedReport report;
  bool many = false;     // three samples of two outputs a row, in another order than the rows
  bool failing = false;  // the first row is bad
};

// What one row may be reported as; nothing where `judged` is false.
struct ExpectedRow {
  bool judged = false;
  bool fails = false;
  RealLogprobs real;
  std::vector<double> slack;     // [vocab] how far a value may be from real.value
  std::vector<bool> may_vanish;  // [vocab] a probability that float32 may flush to zero
};

// What this sampler may be off by. Exact samplers: the stated bound. Others work in float32: three
// roundings of the result and its two logarithms, the error of the token's own weight, and of
// logits the quotient by way of a reciprocal. Below 2^-126 of the largest a probability may be zero
// to them, and a filter may then drop the token.
void set_slack(ExpectedRow& expected, const Asked& asked, const reference::WeightBound& bound,
               float temperature, bool exact) {
  const RealLogprobs& real = expected.real;
  expected.slack = real.bound;
  expected.may_vanish.assign(real.value.size(), false);
  if (exact || real.order.empty()) return;
  const bool raw = is_raw(asked.report.mode);
  const double scale = raw || temperature == 0 ? 1 : static_cast<double>(temperature);
  const auto largest =
      static_cast<double>(real.logits[static_cast<std::size_t>(real.order.front())]);
  for (const std::int32_t token : real.order) {
    const auto at = static_cast<std::size_t>(token);
    const double rounding = 3 * 0x1p-24 * std::max(1.0, std::fabs(real.value[at]));
    const double octaves =
        (largest - static_cast<double>(real.logits[at])) / (scale * 0.69314718055994530942);
    expected.may_vanish[at] = !raw && octaves > 126;
    if (!is_logprobs(asked.report.mode)) {
      expected.slack[at] = asked.report.mode == LogprobsMode::raw_logits
                               ? 0
                               : 3 * 0x1p-24 * std::fabs(real.value[at]);
      continue;
    }
    const double weight = bound.at(octaves);
    expected.slack[at] +=
        weight < 0.5 ? rounding - std::log1p(-weight) : std::numeric_limits<double>::infinity();
  }
}

ExpectedRow expected_row(const CheckInput& input, const Request& request, std::int64_t row,
                         const Asked& asked, const reference::WeightBound& bound) {
  ExpectedRow expected;
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const reference::RealDistribution distribution = distribution_of(input, request, row);
  expected.fails = distribution.must_fail;
  if (distribution.must_fail) {
    expected.judged = true;
    return expected;
  }
  if (!distribution.defined) return expected;
  const float temperature = request.parameters[static_cast<std::size_t>(row)].temperature;
  const std::span<const float> logits(request.row(row), vocab);
  if (is_raw(asked.report.mode)) {
    expected.real = reference::real_log_probabilities(logits, {}, asked.report.mode, 1, bound);
  } else {
    std::vector<std::uint8_t> kept(vocab, 0);
    if (input.exact()) {
      kept = model_of(request, row).mask;
    } else {
      // What the processed values of a greedy row are is each engine's own.
      // An open token's mass may be too small to count, and its value is not.
      const bool open = std::ranges::find(distribution.membership, Membership::ambiguous) !=
                        distribution.membership.end();
      if (open || distribution.partly_drawn >= 0 || temperature == 0) return expected;
      for (std::size_t id = 0; id < vocab; ++id)
        kept[id] = distribution.membership[id] == Membership::in;
    }
    std::vector<float> processed(logits.begin(), logits.end());
    if (!request.processing.empty()) processed = processed_row(request, row).logits;
    expected.real =
        reference::real_log_probabilities(processed, kept, asked.report.mode, temperature, bound);
  }
  expected.judged = true;
  set_slack(expected, asked, bound, temperature, input.exact());
  return expected;
}

std::string compare_value(const ExpectedRow& row, std::int64_t token, float observed) {
  const auto at = static_cast<std::size_t>(token);
  const double expected = row.real.value[at];
  const auto value = static_cast<double>(observed);
  if (expected == kNone ? value == kNone : std::fabs(value - expected) <= row.slack[at]) return {};
  if (row.may_vanish[at] && value == kNone) return {};
  // Where float32 ends, others go on to infinity.
  const bool beyond = std::fabs(expected) == kLargest && row.slack[at] > row.real.bound[at];
  if (beyond && std::isinf(observed) && (value > 0) == (expected > 0)) return {};
  return fmt::format("of token {} is {}, expected {:.9g} within {:.1e}", token, observed, expected,
                     row.slack[at]);
}

// A rank is exact where values are; else values that are closer than their slack may change places.
std::string compare_rank(const ExpectedRow& row, std::int32_t token, RankRule rule, bool exact,
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

std::string compare_top(const ExpectedRow& row, bool exact, std::span<const std::int32_t> ids,
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
    if (!right && !exact && in_vocab && !listed.contains(id)) {  // may change places with it?
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

// Of an output without a token.
std::string compare_failed(const Request& request, const Asked& asked, const Response& response,
                           std::int64_t output) {
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

std::string compare_output(const CheckInput& input, const Request& request, const Asked& asked,
                           const Response& response, std::int64_t output,
                           const ExpectedRow& expected, CheckOutcome& outcome) {
  const bool exact = input.exact();
  const auto samples = static_cast<std::size_t>(request.num_samples);
  const auto first = static_cast<std::size_t>(output) * samples;
  for (std::size_t at = first; at < first + samples; ++at) {
    const std::int32_t token = response.tokens[at];
    if (token < 0 || token >= request.vocab) continue;  // other checks'
    ++outcome.measures["values"];
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
                        const ExpectedRow& expected) {
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

Request request_as_asked(const CheckInput& input, std::int64_t first, std::int64_t count,
                         const Asked& asked) {
  Request request = make_request(input, first, count);
  if (asked.failing) request.logits[0] = std::numeric_limits<float>::quiet_NaN();
  request.gap = asked.many ? 3 : 0;
  if (!asked.many) return request;
  request.with_indices = true;
  request.num_samples = 3;
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    request.indices.push_back(static_cast<std::int32_t>(count - 1 - i / 2));
    request.seed.push_back(mixed(input.seed, static_cast<std::uint64_t>(i)));
    request.offset.push_back(0);
  }
  return request;
}

// One call over rows of the input, judged.
void ask(const CheckInput& input, std::int64_t first, std::int64_t count, const Asked& asked,
         const reference::WeightBound& bound, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request request = request_as_asked(input, first, count, asked);
  const WantedResults wanted = reported(sampler, {.report = asked.report});
  if (!wanted.report.values || !missing_ability(sampler, request).empty()) return;
  const Response response = run_request(*input.sampler, request, wanted);
  if (!response.ran()) {
    if (!response.damage.empty() || !may_refuse(input, request)) outcome.fail(response.trouble());
    return;
  }
  std::vector<ExpectedRow> rows;
  for (std::int64_t row = 0; row < count; ++row) {
    rows.push_back(expected_row(input, request, row, asked, bound));
    const ExpectedRow& expected = rows.back();
    if (!expected.judged) continue;
    ++outcome.rows;
    std::string wrong;
    if (!response.report_all.empty()) wrong = compare_all(request, response, row, expected);
    if (wrong.empty()) continue;
    outcome.fail(fmt::format("{}: row {} ({}): {}", to_string(asked.report.mode), first + row,
                             describe(request.parameters[static_cast<std::size_t>(row)]), wrong));
    return;
  }
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const ExpectedRow& expected = rows[static_cast<std::size_t>(row)];
    if (!expected.judged) continue;
    ++outcome.draws;
    const std::string wrong =
        expected.fails ? compare_failed(request, asked, response, output)
                       : compare_output(input, request, asked, response, output, expected, outcome);
    if (wrong.empty()) continue;
    outcome.fail(fmt::format("{}: output {} of row {} ({}): {}", to_string(asked.report.mode),
                             output, first + row,
                             describe(request.parameters[static_cast<std::size_t>(row)]), wrong));
    return;
  }
}

}  // namespace

CheckOutcome check_logprobs(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_raw && !sampler.reports_processed) {
    return skipped("reports log-probabilities in no mode");
  }
  if (const std::string lacks = missing_ability(sampler, make_request(input, 0, input.rows));
      !lacks.empty()) {
    return skipped(lacks);
  }
  reference::WeightBound bound;
  bound.truncation = sampler.exact_integer;
  bound.constant += input.semantics.relative_weight_error + input.semantics.relative_sum_error;
  CheckOutcome outcome;
  // Each mode in two calls; sizes of the top and rank rules in alternation, so that every mode
  // meets both rules, and the list meets every mode over a few cases.
  constexpr std::int32_t kSizes[] = {1, 5, 20, 128, 0, 3, 50, 127};
  std::uint64_t turn = mixed(input.seed, 0);
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    for (const bool many : {false, true}) {
      Asked asked;
      asked.report.values = asked.report.ranks = asked.report.all = true;
      asked.report.mode = mode;
      asked.report.rank_rule = many ? RankRule::at_least : RankRule::position;
      asked.report.top_n = kSizes[turn++ % std::size(kSizes)];
      asked.many = many;
      asked.failing = many && sampler.reports_status;
      const std::int64_t chunk =
          std::max<std::int64_t>(1, (std::int64_t{1} << 20) / input.logits->vocab());
      for (std::int64_t first = 0; first < input.rows; first += chunk) {
        ask(input, first, std::min(chunk, input.rows - first), asked, bound, outcome);
        if (outcome.failed()) return outcome;
      }
    }
  }
  if (outcome.rows == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  outcome.message = fmt::format("values, ranks and largest tokens of {} rows agree", outcome.rows);
  return outcome;
}

}  // namespace fairdraw::harness
