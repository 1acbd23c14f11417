#include "harness/run/checks/speculation/stray_drafts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "harness/run/checks/speculation/chain_rows.h"

namespace fairdraw::harness {
namespace {

// The number of requests per call; the middle one has the stray id.
constexpr std::int64_t kTrio = 3, kMiddle = 1;
// The maximum width of the rows. The width hardly matters, because an id is only compared with one
// number; other cases have wide rows.
constexpr std::int64_t kMaxTokens = 4096;

// Returns ids outside of the vocabulary. The argument `token` is a valid token, which is in the low
// bits of two of these ids.
std::vector<std::int32_t> strays(std::int64_t vocab, std::int32_t token) {
  std::vector<std::int32_t> ids = {-1, static_cast<std::int32_t>(vocab),
                                   std::numeric_limits<std::int32_t>::max(),
                                   std::numeric_limits<std::int32_t>::min() + token};
  if (0x10000 + token >= vocab) ids.push_back(0x10000 + token);
  return ids;
}

// The results of one chain, or of one request, of a call.
struct Result {
  std::vector<std::int32_t> tokens, others;  // the results `others` are nodes and counts
  std::optional<std::int32_t> status;
};

std::string fault_of_stray(const Result& result) {
  const auto is_none = [](std::int32_t token) { return token == -1; };
  const auto is_nothing = [](std::int32_t value) { return value == -1 || value == 0; };
  if (!std::ranges::all_of(result.tokens, is_none)) {
    return fmt::format("the request gives tokens {}, but must give none",
                       fmt::join(result.tokens, " "));
  }
  if (!std::ranges::all_of(result.others, is_nothing)) {
    return fmt::format("counts and nodes are {}, but nothing was accepted",
                       fmt::join(result.others, " "));
  }
  if (!result.status) return {};
  const auto expected = static_cast<std::int32_t>(RowStatus::index_out_of_range);
  return *result.status == expected ? std::string()
                                    : fmt::format("its status is {}, expected {}", *result.status,
                                                  to_string(RowStatus::index_out_of_range));
}

std::string fault_of_neighbour(const CheckInput& input, const Result& result,
                               const Result& before) {
  const bool in_range = std::ranges::all_of(result.tokens, [&input](std::int32_t token) {
    return token >= -1 && token < input.logits->vocab();
  });
  const bool same = !input.sampler->description().per_request_seeds ||
                    !input.sampler->description().randomness.replays ||
                    result.tokens == before.tokens;
  if (in_range && same && result.status.value_or(0) == 0) return {};
  return fmt::format("a neighbour gives tokens {}, but {} without the request",
                     fmt::join(result.tokens, " "), fmt::join(before.tokens, " "));
}

// Runs the three requests with and without the stray id. The function `run` gives one result per
// request, or returns the reason why the call failed.
template <class Request, class Run>
void judge(const CheckInput& input, const char* what, const Request& right, std::size_t first,
           std::size_t drafts, const Run& run, CheckOutcome& outcome) {
  std::vector<Result> before, after;
  if (const std::string trouble = run(right, before); !trouble.empty()) {
    outcome.fail(fmt::format("{}: {}", what, trouble));
    return;
  }
  for (std::size_t i = 0; i < drafts && !outcome.failed(); ++i) {
    for (const std::int32_t stray : strays(right.vocab, right.draft_tokens[first + i])) {
      if (outcome.failed()) return;
      Request request = right;
      request.draft_tokens[first + i] = stray;
      ++outcome.measures["stray_drafts"];
      outcome.draws += kTrio;
      const std::string trouble = run(request, after);
      const bool refused = trouble.starts_with("call refused");
      if (refused && !input.sampler->description().reports_status) continue;
      std::string wrong = trouble;
      for (std::size_t k = 0; wrong.empty() && k < after.size(); ++k) {
        wrong = k == kMiddle ? fault_of_stray(after[k])
                             : fault_of_neighbour(input, after[k], before[k]);
      }
      if (wrong.empty()) continue;
      outcome.fail(
          fmt::format("{}: drafted id {} at position {} of {}: {}", what, stray, i, drafts, wrong));
      outcome.evidence.suspects.push_back(
          {"speculative decoding: a drafted id that is no token",
           fmt::format("id {} over {} tokens", stray, right.vocab)});
    }
  }
}

// Splits a call's arrays of tokens, statuses and other results by request.
std::vector<Result> results_of(const std::vector<std::int32_t>& tokens,
                               const std::vector<std::int32_t>& statuses,
                               std::span<const std::vector<std::int32_t>* const> others) {
  std::vector<Result> results(static_cast<std::size_t>(kTrio));
  const auto part = [](const std::vector<std::int32_t>& values, std::int64_t at) {
    return part_of(values, at, std::ssize(values) / kTrio);
  };
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto at = static_cast<std::int64_t>(k);
    results[k].tokens = part(tokens, at);
    if (!statuses.empty()) results[k].status = statuses[k];
    for (const std::vector<std::int32_t>* const values : others) {
      const std::vector<std::int32_t> more = part(*values, at);
      results[k].others.insert(results[k].others.end(), more.begin(), more.end());
    }
  }
  return results;
}

}  // namespace

void expect_stray_chains_fail(const CheckInput& input, CheckOutcome& outcome) {
  if (outcome.failed() || !input.sampler->description().drafts.faults) return;
  if (input.logits->vocab() > kMaxTokens) return;
  constexpr std::int64_t kDrafts = 4, kCandidates = 12;
  const ChainRequest candidates = make_chains(input, 0, kCandidates, kDrafts);
  std::vector<std::int64_t> picks;
  for (std::int64_t chain = 0; chain < kCandidates; ++chain) {
    if (expected_chain(candidates, chain).status == RowStatus::ok) picks.push_back(chain);
  }
  if (std::ssize(picks) < kTrio) return;
  picks.resize(kTrio);
  const auto run = [&input](const ChainRequest& request, std::vector<Result>& results) {
    const ChainResponse response = run_chain_request(*input.sampler, request);
    if (!response.ran()) return response.trouble();
    const std::vector<std::int32_t>* const counts[] = {&response.accepted, &response.emitted};
    results = results_of(response.tokens, response.statuses, counts);
    return std::string();
  };
  judge(input, "chains", pick_chains(candidates, picks), kMiddle * kDrafts, kDrafts, run, outcome);
}

void expect_stray_requests_fail(const CheckInput& input, const SpeculationShape& shape,
                                CheckOutcome& outcome) {
  if (outcome.failed() || !input.sampler->description().drafts.faults) return;
  if (input.logits->vocab() > kMaxTokens) return;
  constexpr std::int64_t kCandidates = 16;
  const SpeculationRequest candidates = make_speculations(input, 0, kCandidates, shape);
  std::vector<std::int64_t> picks;
  std::optional<std::int64_t> longest;
  std::size_t drafts = 0;
  for (std::int64_t b = 0; b < kCandidates; ++b) {
    const DraftedTokens taken = split_request(candidates, b);
    if (outcome_of(taken).status != RowStatus::ok) continue;
    if (taken.drafted.size() > drafts) {
      if (longest) picks.push_back(*longest);
      longest = b;
      drafts = taken.drafted.size();
    } else {
      picks.push_back(b);
    }
  }
  if (!longest || std::ssize(picks) < kTrio - 1) return;
  SpeculationRequest right = pick_requests(candidates, {picks[0], *longest, picks[1]});
  if (!input.sampler->description().active_rows) right.active.clear();
  const auto first = static_cast<std::size_t>(right.row_begins[kMiddle] - kMiddle);
  const auto run = [&input](const SpeculationRequest& request, std::vector<Result>& results) {
    const SpeculationResponse response = run_speculation(*input.sampler, request);
    if (!response.ran()) return response.trouble();
    const std::vector<std::int32_t>* const counts[] = {&response.accepted, &response.nodes};
    results = results_of(response.tokens, response.statuses, counts);
    return std::string();
  };
  judge(input, shape.trees ? "trees" : "chains", right, first, drafts, run, outcome);
}

}  // namespace fairdraw::harness
