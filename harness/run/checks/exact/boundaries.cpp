// Judges filters by tokens alone, in rows where the last token that a filter keeps and the first
// token that it drops are likely.
//
// If a filter keeps a token that it must drop, the token appears in the draws, and one draw of it
// is proof. If a filter drops a token that must stay, the token is missing from the draws, and so
// are groups of tokens of which at least one must be drawn (missing_tokens.h). Some 600 such tests
// per case, in some 40 cases, take 3e-14 of the run's error budget of 1e-9.
//
// This check cannot detect wrong boundaries among tokens of little mass, which are judged by masks,
// nor wrong probabilities other than 0, which are judged by distributions.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/draws.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/boundary_rows.h"
#include "harness/run/checks/exact/missing_tokens.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

// Returns whether a case with several rows uses the boundary row of this number. A case uses about
// as many boundary rows as it has rows, of all kinds; the case's seed selects them.
bool is_asked(const CheckInput& input, std::uint64_t number, std::size_t all) {
  if (input.rows == 1) return true;
  const std::uint64_t step =
      std::max<std::uint64_t>(1, all / static_cast<std::uint64_t>(input.rows));
  return number % step == mixed(input.seed, 6) % step;
}

// Judges the draws from a row: tokens that must not be drawn, and tokens that are missing. The
// message begins with `where`.
void judge_counts(const std::string& where, const BoundaryRow& row, const Request& request,
                  const reference::RealDistribution& distribution, const Counts& counts,
                  CheckOutcome& outcome) {
  outcome.draws += counts.draws;
  if (!counts.trouble.empty()) {
    outcome.fail(where + ": " + counts.trouble);
    return;
  }
  if (counts.no_token > 0) {
    outcome.fail(fmt::format("{}: {} of {} draws are outside of the vocabulary", where,
                             counts.no_token, counts.draws));
    return;
  }
  MissingTokens missing(distribution, counts);
  for (std::size_t token = 0; token < counts.of_token.size(); ++token) {
    const Membership membership = distribution.membership[token];
    if (membership == Membership::in) missing.expect_one_of({&token, 1});
    if (membership != Membership::out || counts.of_token[token] == 0) continue;
    outcome.fail(
        fmt::format("{}: token {} (logit {}) was drawn {} times, and is outside of the support",
                    where, token, request.logits[token], counts.of_token[token]));
    return;
  }
  if (row.by_rank) missing.expect_last_ones();
  for (const std::vector<std::size_t>& group : row.groups) missing.expect_one_of(group);
  if (missing.spent() > 0) outcome.spend(missing.spent());
  outcome.measures["tokens_expected"] += static_cast<double>(missing.expected());
  if (!missing.missing().empty()) outcome.fail(where + ": " + missing.missing());
}

// The number of draws that shows whether half of the tokens of a flat row are kept: the last 38 in
// 100 tokens are all missing with probability 0.62^100.
constexpr std::int64_t kDrawsOfHalf = 100;

// Returns draws from calls that each have `rows` copies of the row. With `pads`, every second row
// is padding that has the same values in another order, so that a sampler that reads the wrong row
// fails.
Counts draws_in_batches(const CheckInput& input, const Request& row, std::int64_t rows, bool pads,
                        std::uint64_t seed) {
  Request request = row;
  request.rows = rows;
  request.logits.clear();
  request.allowed.clear();
  request.seed.clear();
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool is_padding = pads && i % 2 == 0;
    if (pads) request.active.push_back(is_padding ? 0 : 1);
    request.logits.insert(request.logits.end(), row.logits.begin(), row.logits.end());
    if (is_padding) std::reverse(request.logits.end() - row.vocab, request.logits.end());
    request.allowed.insert(request.allowed.end(), row.allowed.begin(), row.allowed.end());
  }
  request.parameters.assign(static_cast<std::size_t>(rows), row.parameters.front());
  request.offset.assign(static_cast<std::size_t>(rows), 0);
  Counts counts;
  counts.of_token.resize(static_cast<std::size_t>(row.vocab));
  for (std::uint64_t call = 0; counts.draws < static_cast<std::uint64_t>(kDrawsOfHalf); ++call) {
    request.seed.clear();
    for (std::int64_t i = 0; i < rows; ++i) {
      request.seed.push_back(mixed(seed + call, static_cast<std::uint64_t>(i)));
    }
    Response response = run_request(*input.sampler, request, {});
    if (pads) {
      std::size_t place = 0;
      std::erase_if(response.tokens, [&place](std::int32_t) { return place++ % 2 == 0; });
    }
    add_tokens(response, counts);
    if (!counts.trouble.empty()) return counts;
  }
  return counts;
}

Counts draws_of(const CheckInput& input, const BoundaryRow& row, const Request& request,
                std::uint64_t seed) {
  return row.samples > 0
             ? count_samples(*input.sampler, request, row.samples, seed)
             : count_draws(*input.sampler, request, input.draws, seed, input.requests_of_call);
}

void judge(const CheckInput& input, const BoundaryRow& row, const Request& request,
           std::uint64_t number, CheckOutcome& outcome) {
  const reference::RealDistribution distribution = distribution_of(input, request, 0);
  if (!distribution.defined || distribution.must_fail) return;  // judged by `status`
  ++outcome.rows;
  const std::string where =
      fmt::format("row {} ({}; {})", number, row.name, describe(row.parameters));
  const auto judge_draws = [&](const std::string& how, const Counts& counts) {
    if (outcome.failed()) return;
    judge_counts(where + how, row, request, distribution, counts, outcome);
  };
  judge_draws("", draws_of(input, row, request, mixed(input.seed + 5, number)));
  // One boundary row of each kind is enough, because the effect of other rows in a call does not
  // depend on parameters.
  if (outcome.failed() || !row.by_rank || outcome.measures["batches"] > 0) return;
  const std::int64_t most = input.requests_of_call;
  for (const std::int64_t rows : {2, 4, 8, 16, 32, 64}) {
    if (most > 0 && rows > most) break;
    ++outcome.measures["batches"];
    judge_draws(fmt::format(" in calls of {} rows", rows),
                draws_in_batches(input, request, rows, false, mixed(input.seed + 6, number)));
  }
  const bool pads =
      input.sampler->description().active_rows && request.input == RowInput::logits && most != 1;
  if (!pads) return;
  judge_draws(" among rows of padding",
              draws_in_batches(input, request, most > 0 ? most : 2 * kDrawsOfHalf, true,
                               mixed(input.seed + 7, number)));
}

}  // namespace

CheckOutcome check_boundaries(const CheckInput& input) {
  CheckOutcome outcome;
  std::uint64_t number = 0;
  const std::vector<BoundaryRow> rows = boundary_rows(input);
  for (const BoundaryRow& row : rows) {
    if (outcome.failed()) return outcome;
    if (!is_asked(input, ++number, rows.size())) continue;
    const Request request = boundary_request(input, row, number);
    if (is_left_out(input, request, outcome)) continue;
    judge(input, row, request, number, outcome);
  }
  if (outcome.failed()) return outcome;
  if (outcome.rows == 0) {
    return outcome.lacks.empty()
               ? skipped("semantics " + input.semantics.name + " defines none of these rows")
               : skipped(lack_of(outcome.lacks.back()));
  }
  outcome.message = fmt::format(
      "{} rows draw what their filters keep, and nothing else: {} tokens "
      "were expected in {} draws",
      outcome.rows, outcome.measures["tokens_expected"], outcome.draws);
  return outcome;
}

}  // namespace fairdraw::harness
