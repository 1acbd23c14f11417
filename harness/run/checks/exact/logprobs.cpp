// Judges log-probabilities that are reported in the ways of engines: modes, ranks, the top n, whole
// rows.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/logprob_rows.h"
#include "harness/run/checks/exact/processing_batches.h"
#include "harness/run/evidence/logprob_suspects.h"
#include "harness/run/evidence/mask_suspects.h"

namespace fairdraw::harness {
namespace {

Request request_as_asked(const CheckInput& input, std::int64_t first, std::int64_t count,
                         const AskedLogprobs& asked) {
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

// Adds the mistake in the filters that gives a call wrong masks, if its masks are wrong.
void note_wrong_masks(const CheckInput& input, Request request, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_mask || request.input != RowInput::logits) return;
  request.with_indices = false;
  request.indices.clear();
  request.num_samples = 1;
  request.seed.resize(static_cast<std::size_t>(request.rows));
  request.offset.resize(static_cast<std::size_t>(request.rows));
  const Response masks = run_request(
      *input.sampler, request, reported(sampler, request, {.support_size = true, .mask = true}));
  if (!masks.ran()) return;
  const bool is_plain = request.processing.empty();
  note_mask_mistakes(input, is_plain ? request : processed_beforehand(request), masks, outcome);
}

// Makes one call with some rows of the input, and judges it.
void ask(const CheckInput& input, std::int64_t first, std::int64_t count,
         const AskedLogprobs& asked, const reference::WeightBound& bound, CheckOutcome& outcome) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request request = request_as_asked(input, first, count, asked);
  const WantedResults wanted = reported(sampler, {.report = asked.report});
  if (!wanted.report.values) {
    outcome.leave_out(lack_of(is_raw(asked.report.mode) ? "reports_raw" : "reports_processed"));
    return;
  }
  if (is_left_out(input, request, outcome)) return;
  const Response response = run_request(*input.sampler, request, wanted);
  if (!response.ran()) {
    if (!response.damage.empty() || !may_refuse(input, request)) outcome.fail(response.trouble());
    return;
  }
  std::vector<ExpectedLogprobs> expected;
  for (std::int64_t row = 0; row < count; ++row) {
    const LogprobsMode mode = asked.report.mode;
    const LogprobsRow one = logprobs_row(input, request, row, mode);
    if (one.fails || !one.judged) {
      expected.push_back({.judged = one.judged, .fails = one.fails});
    } else {
      expected.push_back(with_slack(input, one, mode, bound, logprobs_of(one, mode, bound)));
    }
  }
  const LogprobsComparison found =
      compare_logprobs(input, request, asked, response, expected, first);
  outcome.rows += found.rows;
  outcome.draws += found.outputs;
  if (found.values > 0) outcome.measures["values"] += static_cast<double>(found.values);
  if (found.wrong.empty()) return;
  outcome.fail(found.wrong);
  if (!is_raw(asked.report.mode)) note_wrong_masks(input, request, outcome);
  if (!outcome.evidence.suspects.empty()) return;
  note_logprob_mistakes({input, request, asked, response, expected, bound}, outcome);
}

}  // namespace

CheckOutcome check_logprobs(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_raw && !sampler.reports_processed) {
    return skipped(lack_of("reports_raw"));
  }
  if (const Lack lacks = lack_for(sampler, make_request(input, 0, input.rows)); !lacks.empty()) {
    return skipped(lacks);
  }
  reference::WeightBound bound = weight_bound(input);
  bound.constant += input.semantics.relative_sum_error;
  CheckOutcome outcome;
  // Each report mode is judged in two calls. The sizes of the top list and the rank rules
  // alternate, so that every mode is tested with both rules and, over a few cases, with every size.
  constexpr std::int32_t kSizes[] = {1, 5, 20, 128, 0, 3, 50, 127};
  std::uint64_t turn = mixed(input.seed, 0);
  for (const LogprobsMode mode :
       {LogprobsMode::raw_logits, LogprobsMode::raw_logprobs, LogprobsMode::processed_logits,
        LogprobsMode::processed_logprobs}) {
    for (const bool many : {false, true}) {
      AskedLogprobs asked;
      asked.report.values = asked.report.ranks = asked.report.all = true;
      asked.report.mode = mode;
      asked.report.rank_rule = many ? RankRule::at_least : RankRule::position;
      asked.report.top_n = kSizes[turn++ % std::size(kSizes)];
      asked.many = many;
      // If a batch has only one row, that row is never made bad, because its values are judged.
      asked.failing = many && sampler.reports_status && input.rows > 1;
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
