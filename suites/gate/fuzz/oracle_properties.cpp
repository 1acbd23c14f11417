// Properties that compare a sampler with the oracles.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "harness/run/calls/draws.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/missing_tokens.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Request;
using harness::Response;
using reference::Membership;

// Judges whether the sampler runs the call. If a call is rejected, or writes outside its arrays,
// only this property fails, because the other properties then have no answer to judge.
Judgement call_runs(Subject& subject) {
  const Response& response = subject.response();
  return response.ran() ? holds() : fails(response.trouble());
}

Judgement tokens_of_the_model(Subject& subject) {
  if (!subject.exact()) return not_applicable("claims no integer arithmetic");
  const Request& request = subject.request();
  const Response& response = subject.response();
  const reference::IntegerRow none;
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    const bool in_range = row >= 0 && row < request.rows;
    const reference::IntegerRow& model = in_range ? subject.model(row) : none;
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const harness::ExpectedToken expected =
          harness::expected_token(request, model, output, sample);
      const auto at = static_cast<std::size_t>(output * request.num_samples + sample);
      if (response.tokens[at] != expected.token) {
        return fails(fmt::format("output {}, sample {} is token {}, the integer model says {}",
                                 output, sample, response.tokens[at], expected.token));
      }
      const auto o = static_cast<std::size_t>(output);
      if (!response.statuses.empty() &&
          response.statuses[o] != static_cast<std::int32_t>(expected.status)) {
        return fails(fmt::format("output {} has status {}, the integer model says {}", output,
                                 response.statuses[o], to_string(expected.status)));
      }
      const bool ok = expected.status == RowStatus::ok;
      if (!response.support_size.empty() &&
          response.support_size[o] != (ok ? model.support_size : 0)) {
        return fails(fmt::format("output {} has support size {}, the integer model says {}", output,
                                 response.support_size[o], ok ? model.support_size : 0));
      }
    }
  }
  return holds();
}

Judgement rows_of_the_model(Subject& subject) {
  if (!subject.exact()) return not_applicable("claims no integer arithmetic");
  const Request& request = subject.request();
  const Response& response = subject.response();
  if (response.mask.empty() && response.probs.empty()) return not_applicable("reports no rows");
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (!request.is_active(row)) continue;
    const reference::IntegerRow& model = subject.model(row);
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      const bool kept =
          model.status == RowStatus::ok && model.mask[static_cast<std::size_t>(id)] != 0;
      if (!response.mask.empty() && response.kept(row, request.vocab, id) != kept) {
        return fails(fmt::format("row {}: token {} is {} the mask, the integer model {} it", row,
                                 id, kept ? "missing from" : "in", kept ? "keeps" : "drops"));
      }
      if (response.probs.empty()) continue;
      const float expected = kept ? model.probability(static_cast<std::int32_t>(id)) : 0.0F;
      const float observed = response.probs[static_cast<std::size_t>(row * request.vocab + id)];
      if (std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(observed)) {
        continue;
      }
      return fails(fmt::format("row {}: probability of token {} is {}, the integer model says {}",
                               row, id, observed, expected));
    }
  }
  return holds();
}

// Requires that mask bits beyond the vocabulary are zero, so that bits of whole words can be
// counted.
Judgement bits_behind_the_vocabulary(Subject& subject) {
  const Request& request = subject.request();
  const Response& response = subject.response();
  if (response.mask.empty() || request.vocab % 32 == 0) return not_applicable("has no such bits");
  const std::int64_t words = harness::words_for(request.vocab);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (!request.is_active(row)) continue;
    const std::uint32_t last = response.mask[static_cast<std::size_t>((row + 1) * words - 1)];
    if ((last >> (request.vocab % 32)) == 0) continue;
    return fails(fmt::format("row {}: the mask's last word is {:#x}, with bits beyond token {}",
                             row, last, request.vocab - 1));
  }
  return holds();
}

// Compares with the interval oracle: a token that, within the error bound, is certainly kept or
// certainly dropped must be so.
Judgement oracle_intervals(Subject& subject) {
  const Request& request = subject.request();
  const Response& response = subject.response();
  const harness::CheckInput input = subject.bare_input();
  bool judged = false;
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    if (row < 0 || row >= request.rows || !request.is_active(row)) continue;
    const reference::RealDistribution distribution = harness::distribution_of(input, request, row);
    if (!distribution.defined && !distribution.must_fail) continue;
    judged = true;
    const auto at = static_cast<std::size_t>(output);
    if (!response.statuses.empty() && (response.statuses[at] != 0) != distribution.must_fail) {
      return fails(fmt::format("output {} has status {}, the real distribution is {}", output,
                               response.statuses[at],
                               distribution.must_fail ? "undefined" : "defined"));
    }
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const std::int32_t token =
          response.tokens[at * static_cast<std::size_t>(request.num_samples) +
                          static_cast<std::size_t>(sample)];
      const bool in_range = token >= 0 && token < request.vocab;
      if (distribution.must_fail
              ? token == -1
              : in_range &&
                    distribution.membership[static_cast<std::size_t>(token)] != Membership::out) {
        continue;
      }
      return fails(fmt::format("output {}: token {} is {}", output, token,
                               distribution.must_fail ? "drawn from a row that must fail"
                               : in_range             ? "outside of the real support"
                                                      : "outside of the vocabulary"));
    }
    if (distribution.must_fail) continue;
    if (!response.support_size.empty() && (response.support_size[at] < distribution.support_low ||
                                           response.support_size[at] > distribution.support_high)) {
      return fails(fmt::format("output {} has support size {}, the real distribution {} to {}",
                               output, response.support_size[at], distribution.support_low,
                               distribution.support_high));
    }
    if (response.mask.empty()) continue;
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      const Membership membership = distribution.membership[static_cast<std::size_t>(id)];
      const bool kept = response.kept(row, request.vocab, id);
      if (membership == Membership::ambiguous || kept == (membership == Membership::in)) continue;
      return fails(fmt::format("row {}: token {} is {} the mask, the real distribution {} it", row,
                               id, kept ? "in" : "missing from", kept ? "excludes" : "includes"));
    }
  }
  return judged ? holds() : not_applicable("no row has a distribution under these semantics");
}

// Requires that the answer is consistent: the token is in the mask, the mask has the reported size,
// and probabilities are 0 outside the mask and sum to 1.
Judgement answers_agree(Subject& subject) {
  const Request& request = subject.request();
  const Response& response = subject.response();
  for (std::int64_t output = 0; output < request.outputs(); ++output) {
    const std::int64_t row = request.row_of(output);
    if (row < 0 || row >= request.rows || !request.is_active(row)) continue;
    const auto at = static_cast<std::size_t>(output);
    std::int64_t kept = 0;
    double sum = 0;
    for (std::int64_t id = 0; id < request.vocab; ++id) {
      const bool in_mask = !response.mask.empty() && response.kept(row, request.vocab, id);
      if (in_mask) ++kept;
      if (response.probs.empty()) continue;
      const float p = response.probs[static_cast<std::size_t>(row * request.vocab + id)];
      sum += static_cast<double>(p);
      if (response.mask.empty() || in_mask || p == 0) continue;
      return fails(
          fmt::format("row {}: token {} has probability {} outside of the mask", row, id, p));
    }
    const bool ok = response.statuses.empty()
                        ? response.tokens[at * static_cast<std::size_t>(request.num_samples)] >= 0
                        : response.statuses[at] == 0;
    if (!response.mask.empty() && !response.support_size.empty() &&
        response.support_size[at] != (ok ? kept : 0)) {
      return fails(fmt::format("output {}: support size {}, and {} tokens in the mask", output,
                               response.support_size[at], kept));
    }
    for (std::int32_t sample = 0; sample < request.num_samples; ++sample) {
      const std::int32_t token =
          response.tokens[at * static_cast<std::size_t>(request.num_samples) +
                          static_cast<std::size_t>(sample)];
      if ((token == -1) == ok) {
        return fails(
            fmt::format("output {}: token {} with status {}", output, token, ok ? "ok" : "not ok"));
      }
      if (!ok || response.mask.empty()) continue;
      if (token < 0 || token >= request.vocab || !response.kept(row, request.vocab, token)) {
        return fails(fmt::format("output {}: token {} is not in the mask", output, token));
      }
    }
    if (!ok || response.probs.empty()) continue;
    // Each probability is rounded once from float64, with a relative error of 2^-24 or an absolute
    // error of 2^-150. Samplers in float32 may also sum in float32, with one rounding per token.
    const double vocab = static_cast<double>(request.vocab);
    const double bound =
        0x1p-24 + vocab * (0x1p-150 + 0x1p-52) + (subject.exact() ? 0.0 : vocab * 0x1p-24);
    if (std::fabs(sum - 1) <= bound) continue;
    return fails(fmt::format("row {}: probabilities sum to {:.9g}, expected 1 within {:.1e}", row,
                             sum, bound));
  }
  return holds();
}

// Requires that kept tokens are drawn, also by samplers that report only tokens. Some token of the
// last half, quarter and so on of the row must be drawn, if 128 draws are enough for this. For
// example, 128 draws reach the last half of a flat row.
Judgement kept_tokens_are_drawn(Subject& subject) {
  constexpr std::uint64_t kDraws = 128;
  const Request& given = subject.request();
  if (given.rows == 0 || !given.is_active(0)) return not_applicable("has no such row");
  if (!given.processing.empty()) return not_applicable("is of rows as they come");
  Request row = harness::pick_rows(given, {0});
  row.num_samples = 1;
  const reference::RealDistribution distribution =
      harness::distribution_of(subject.bare_input(), row, 0);
  if (!distribution.defined || distribution.must_fail) {
    return not_applicable("the row has no distribution");
  }
  const harness::Counts counts =
      harness::count_draws(subject.sampler(), row, kDraws, subject.fuzz_case().salt);
  if (!counts.trouble.empty()) return fails(counts.trouble);
  if (counts.no_token > 0) return fails("a draw is outside of the vocabulary");
  harness::MissingTokens missing(distribution, counts);
  missing.expect_last_ones();
  if (missing.expected() == 0) return not_applicable("no part of the row must be drawn");
  return missing.missing().empty() ? holds() : fails("row 0: " + missing.missing());
}

Judgement from_check(Subject& subject, harness::CheckOutcome (*check)(const harness::CheckInput&)) {
  const auto input = subject.check_input();
  if (!input) return not_applicable("is no input of the checks");
  const harness::CheckOutcome outcome = check(*input);
  if (outcome.failed()) return fails(outcome.message);
  return outcome.verdict == harness::Verdict::skipped ? not_applicable(outcome.message) : holds();
}

Judgement log_probabilities(Subject& subject) {
  if (!subject.request().processing.empty()) return not_applicable("is of rows as they come");
  return from_check(subject, harness::check_probabilities);
}

Judgement reports(Subject& subject) { return from_check(subject, harness::check_logprobs); }

Judgement float_environment(Subject& subject) {
  return from_check(subject, harness::check_float_environment);
}

}  // namespace

std::vector<Property> oracle_properties() {
  return {
      {kCallRuns, "a call that the sampler must take runs, and writes nothing but its results",
       CaseKind::batch, 1, call_runs},
      {"model.tokens", "tokens, statuses and support sizes are those of the integer model",
       CaseKind::batch, 1, tokens_of_the_model},
      {"model.rows", "masks and probabilities are those of the integer model, bit for bit",
       CaseKind::batch, 1, rows_of_the_model},
      {"mask.padding", "bits of a mask beyond the vocabulary are 0", CaseKind::batch, 1,
       bits_behind_the_vocabulary},
      {"oracle.intervals", "masks, supports and tokens are never against the real-number oracle",
       CaseKind::batch, 1, oracle_intervals},
      {"tokens.reach", "of what a row keeps each half, quarter, ... that is likely enough is drawn",
       CaseKind::batch, 8, kept_tokens_are_drawn},
      {"answer.agrees", "token, status, support size, mask and probabilities fit each other",
       CaseKind::batch, 1, answers_agree},
      {"oracle.logprobs", "probabilities and log-probabilities are within their bounds",
       CaseKind::batch, 8, log_probabilities},
      {"oracle.reports", "values, ranks and largest tokens are those of the oracle, in every mode",
       CaseKind::batch, 8, reports},
      {"environment.kept", "the caller's rounding mode and flushing change nothing, and stay",
       CaseKind::batch, 16, float_environment},
  };
}

}  // namespace fairdraw::suites::fuzz
