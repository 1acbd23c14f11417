// Judges bad rows: each kind of bad row has its own status, and no row affects another.
#include <fmt/format.h>

#include "harness/inputs/special_floats.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/faults.h"

namespace fairdraw::harness {
namespace {

std::string judge(const Request& request, const Response& response, const Response& good,
                  std::int64_t row, RowStatus status) {
  for (std::int64_t i = 0; i < request.rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool bad = i == row;
    const std::int32_t token = bad ? -1 : good.tokens[at];
    const auto expected = static_cast<std::int32_t>(bad ? status : RowStatus::ok);
    if (response.statuses[at] != expected) {
      return fmt::format("{} {} has status {}, expected {}", bad ? "the row" : "batch-mate", i,
                         response.statuses[at], to_string(static_cast<RowStatus>(expected)));
    }
    if (response.tokens[at] != token) {
      return fmt::format("{} {} gives token {}, expected {}", bad ? "the row" : "batch-mate", i,
                         response.tokens[at], token);
    }
    if (!response.support_size.empty() &&
        response.support_size[at] != (bad ? 0 : good.support_size[at])) {
      return fmt::format("{} {} has support size {}, expected {}", bad ? "the row" : "batch-mate",
                         i, response.support_size[at], bad ? 0 : good.support_size[at]);
    }
  }
  const bool row_failed = status != RowStatus::inactive && status != RowStatus::index_out_of_range;
  if (response.mask.empty() || !row_failed) return {};
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    if (response.kept(row, request.vocab, token)) {
      return fmt::format("the mask of the failed row holds token {}", token);
    }
  }
  return {};
}

// Judges the same rows through `indices`: two outputs per row in descending order, with three
// samples each. A status belongs to an output, and either all of its samples are -1 or none is. A
// bad row must have no token even if the call requests no statuses.
std::string judge_outputs(const CheckInput& input, const Request& rows, std::int64_t bad,
                          RowStatus status, CheckOutcome& outcome) {
  Sampler& sampler = *input.sampler;
  Request request = rows;
  if (request.with_indices) return {};  // no row is bad, because the fault is in the indices
  request.with_indices = true;
  request.num_samples = 3;
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
    const std::int64_t row = rows.rows - 1 - i / 2;
    request.indices.push_back(static_cast<std::int32_t>(row));
    request.seed.push_back(static_cast<std::uint64_t>(i));
    request.offset.push_back(0);
  }
  if (is_left_out(input, request, outcome)) return {};
  for (const bool asked : {true, false}) {
    const WantedResults wanted =
        reported(sampler.description(), request, {.statuses = asked, .logprobs = asked});
    const Response response = run_request(sampler, request, wanted);
    if (!response.ran()) return response.trouble();
    for (std::size_t i = 0; i < request.indices.size(); ++i) {
      const bool fails = request.indices[i] == bad;
      const auto expected = static_cast<std::int32_t>(fails ? status : RowStatus::ok);
      if (asked && response.statuses[i] != expected) {
        return fmt::format("output {} of row {} has status {}, expected {}", i, request.indices[i],
                           response.statuses[i], to_string(static_cast<RowStatus>(expected)));
      }
      for (std::size_t at = 3 * i; at < 3 * i + 3; ++at) {
        const std::int32_t token = response.tokens[at];
        if (fails ? token != -1 : token < 0 || token >= request.vocab) {
          return fmt::format("output {} of row {} gives token {} as sample {}{}", i,
                             request.indices[i], token, at - 3 * i,
                             asked ? "" : ", where no status is asked for");
        }
        if (fails && !response.logprob.empty() && response.logprob[at] != -kInfinity) {
          return fmt::format("output {} of row {} has log-probability {}, expected -inf", i,
                             request.indices[i], response.logprob[at]);
        }
      }
    }
  }
  return {};
}

}  // namespace

CheckOutcome check_status(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  // Fairdraw's own profile defines the status of each fault, while other profiles only say whether
  // a row fails.
  const bool has_statuses = input.semantics.name == "fairdraw" && sampler.reports_status;
  if (!has_statuses || !sampler.per_request_seeds) return check_status_of_tokens(input);
  const Request base = make_request(input, 0, input.rows);
  if (const Lack lacks = lack_for(sampler, base); !lacks.empty()) {
    return skipped(lacks);
  }
  const WantedResults wanted =
      reported(sampler, base, {.statuses = true, .support_size = true, .mask = true});
  const Response good = run_request(*input.sampler, base, wanted);
  CheckOutcome outcome;
  if (!good.ran()) return outcome.fail(good.trouble());
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  for (std::size_t i = 0; i < good.statuses.size(); ++i) {
    if (good.statuses[i] != 0) {
      return outcome.fail(fmt::format("a good row {} has status {}", i, good.statuses[i]));
    }
  }

  judge_faults(
      input, base,
      [&](const Fault& fault, std::int64_t row, const Request& request) {
        const Response response = run_request(*input.sampler, request, wanted);
        std::string wrong =
            response.ran() ? judge(request, response, good, row, fault.status) : response.trouble();
        if (wrong.empty()) wrong = judge_outputs(input, request, row, fault.status, outcome);
        return wrong;
      },
      outcome);
  if (outcome.failed()) return outcome;
  outcome.message = fmt::format("{} kinds of bad rows have their status and touch no other row",
                                outcome.measures["faults"]);
  return outcome;
}

}  // namespace fairdraw::harness
