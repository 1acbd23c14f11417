// Judges masks; this is the strictest of the checks, and needs no draws.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/evidence/mask_suspects.h"
#include "harness/run/evidence/pictures.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

std::string where(const Request& request, std::int64_t first, std::int64_t row) {
  return fmt::format("row {} ({})", first + row,
                     describe(request.parameters[static_cast<std::size_t>(row)]));
}

// Records a token that is wrongly in or out of the mask, with the tokens around it and the smallest
// call that shows the error.
void note_wrong_token(const CheckInput& input, const Request& request, const Response& response,
                      std::int64_t first, std::int64_t row, std::int64_t token, bool expected,
                      CheckOutcome& outcome) {
  Evidence& evidence = outcome.evidence;
  if (evidence.boundary) return;
  const auto side = [token](bool kept) {
    return fmt::format("token {} is {} the mask", token, kept ? "in" : "not in");
  };
  evidence.observed = side(!expected);
  if (!expected) note_ban(request, row, token, "kept", outcome);
  evidence.expected = side(expected);
  evidence.boundary = boundary_around(
      request, distribution_of(input, request, row), row, static_cast<std::uint64_t>(first + row),
      token, [&](std::int64_t id) { return response.kept(row, request.vocab, id); });
  // If the result for the row alone is right, the error depends on other rows of the batch.
  const Request one = make_request(input, first + row, 1);
  const Response again =
      run_request(*input.sampler, one, reported(input.sampler->description(), {.mask = true}));
  const bool wrong =
      again.ran() && !again.mask.empty() && again.kept(0, one.vocab, token) != expected;
  evidence.smallest =
      wrong ? fmt::format("this row of {} tokens alone in a call", request.vocab)
            : fmt::format("the batch of {} rows of {} tokens: alone in a call the row is right",
                          request.rows, request.vocab);
  if (!wrong) {
    evidence.suspects.push_back(
        {"batch dependence", "alone in a call the same row gets another mask"});
  }
}

void compare_with_model(const CheckInput& input, const Request& request, const Response& response,
                        std::int64_t first, std::int64_t row, CheckOutcome& outcome) {
  const reference::IntegerRow model = model_of(request, row);
  if (!response.support_size.empty() &&
      response.support_size[static_cast<std::size_t>(row)] != model.support_size) {
    outcome.fail(fmt::format("{}: support size {}, expected {}", where(request, first, row),
                             response.support_size[static_cast<std::size_t>(row)],
                             model.support_size));
  }
  if (response.mask.empty()) return;
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    const bool expected =
        model.status == RowStatus::ok && model.mask[static_cast<std::size_t>(token)] != 0;
    if (response.kept(row, request.vocab, token) == expected) continue;
    outcome.fail(fmt::format("{}: token {} (logit {}) is {}, the integer model {} it",
                             where(request, first, row), token, request.row(row)[token],
                             expected ? "missing from the mask" : "in the mask",
                             expected ? "keeps" : "drops"));
    note_wrong_token(input, request, response, first, row, token, expected, outcome);
    return;
  }
}

void compare_with_distribution(const CheckInput& input, const Request& request,
                               const Response& response, std::int64_t first, std::int64_t row,
                               CheckOutcome& outcome) {
  const reference::RealDistribution distribution = distribution_of(input, request, row);
  if (!distribution.defined || distribution.must_fail) return;  // judged by `status`
  ++outcome.measures["rows_judged"];
  if (distribution.ambiguous_mass > 0) ++outcome.measures["ambiguous_rows"];
  if (!response.support_size.empty()) {
    const std::int32_t size = response.support_size[static_cast<std::size_t>(row)];
    if (size < distribution.support_low || size > distribution.support_high) {
      const std::string expected =
          distribution.support_low == distribution.support_high
              ? fmt::format("{}", distribution.support_low)
              : fmt::format("{} to {}", distribution.support_low, distribution.support_high);
      outcome.fail(fmt::format("{}: support size {}, expected {}", where(request, first, row), size,
                               expected));
    }
  }
  if (response.mask.empty()) return;
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    const Membership membership = distribution.membership[static_cast<std::size_t>(token)];
    if (membership == Membership::ambiguous) continue;
    const bool kept = response.kept(row, request.vocab, token);
    if (kept == (membership == Membership::in)) continue;
    outcome.fail(fmt::format("{}: token {} (logit {}) is {}, the real distribution {} it",
                             where(request, first, row), token, request.row(row)[token],
                             kept ? "in the mask" : "missing from the mask",
                             kept ? "excludes" : "includes"));
    note_wrong_token(input, request, response, first, row, token, !kept, outcome);
    return;
  }
}

// Judges the mask apart from the filters: the mask must contain the drawn token, and bits beyond
// the vocabulary must be 0.
void compare_with_tokens(const Request& request, const Response& response, std::int64_t first,
                         std::int64_t row, CheckOutcome& outcome) {
  if (response.mask.empty()) return;
  const std::int32_t token = response.tokens[static_cast<std::size_t>(row)];
  const bool drawn = token >= 0 && token < request.vocab;
  if (drawn && !response.kept(row, request.vocab, token)) {
    outcome.fail(fmt::format("{}: token {} was drawn, but is not in the mask of the same call",
                             where(request, first, row), token));
    outcome.evidence.suspects.push_back(
        {"the draw leaves its own mask", "the drawn token does not follow from the kept tokens"});
  } else if (response.kept_beyond(row, request.vocab)) {
    outcome.fail(fmt::format("{}: bits of the mask beyond the vocabulary are set",
                             where(request, first, row)));
    outcome.evidence.suspects.push_back(
        {"mask: bits beyond the vocabulary", "bits of tokens that do not exist are set"});
  }
}

// Returns whether a token at the filter's boundary is certainly wrong, which is a suspected cause
// of its own.
bool says_something(const Boundary& boundary) {
  return std::ranges::any_of(boundary.tokens, [](const BoundaryToken& token) {
    return token.oracle != Oracle::ambiguous && token.kept != (token.oracle == Oracle::in);
  });
}

// Reports in which direction the first wrong row errs, if no other parameter or definition explains
// the masks. Also reports sizes that contradict a right mask, and boundaries that only exact
// arithmetic can decide.
void suspect_size(const CheckInput& input, const Request& request, const Response& response,
                  CheckOutcome& outcome) {
  if (!outcome.evidence.suspects.empty()) return;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const reference::RealDistribution distribution = distribution_of(input, request, row);
    if (!distribution.defined || distribution.must_fail) continue;
    std::int64_t low = distribution.support_low, high = distribution.support_high;
    if (input.exact()) low = high = model_of(request, row).support_size;
    const bool has_size = !response.support_size.empty();
    std::int64_t kept = has_size ? response.support_size[at] : low;
    if (!response.mask.empty()) {
      std::int64_t tokens = 0;
      for (std::int64_t id = 0; id < request.vocab; ++id) {
        tokens += response.kept(row, request.vocab, id) ? 1 : 0;
      }
      if (has_size && tokens >= low && tokens <= high && tokens != kept) {
        outcome.evidence.suspects.push_back(
            {"support size: not that of the mask",
             fmt::format("the mask of row {} has the right {} tokens, but the reported size is {}",
                         row, tokens, kept)});
        return;
      }
      kept = tokens;
    }
    if (kept >= low && kept <= high) continue;
    const bool more = kept > high;
    const std::int64_t off = more ? kept - high : low - kept;
    const std::string reason =
        fmt::format("row {} keeps {} tokens, expected {}", row, kept, more ? high : low);
    if (off > 1) {
      outcome.evidence.suspects.push_back(
          {more ? "mask: too many tokens" : "mask: too few tokens", reason});
    } else {
      outcome.evidence.suspects.push_back(
          {more ? "boundary of the mask: one token too many"
                : "boundary of the mask: the boundary token is dropped",
           reason});
    }
    return;
  }
}

// Makes twice as many outputs as rows, in another order, with gaps between the rows of the mask.
// Masks belong to rows and support sizes belong to outputs, and neither may change with the order.
void compare_through_indices(const CheckInput& input, const Request& rows, const Response& expected,
                             std::int64_t first, CheckOutcome& outcome) {
  Request request = rows;
  request.gap = 5;
  request.with_indices = true;
  request.seed.clear();
  request.offset.clear();
  for (std::int64_t i = 0; i < 2 * rows.rows; ++i) {
    const std::int64_t row = i % 2 == 0 ? rows.rows - 1 - i / 2 : i / 2;
    request.indices.push_back(static_cast<std::int32_t>(row));
    request.seed.push_back(mixed(input.seed, static_cast<std::uint64_t>(i)));
    request.offset.push_back(0);
  }
  const SamplerDescription& sampler = input.sampler->description();
  if (outcome.failed() || is_left_out(input, request, outcome)) return;
  const Response response =
      run_request(*input.sampler, request, reported(sampler, {.support_size = true, .mask = true}));
  if (!response.ran()) {
    outcome.fail(response.trouble());
    return;
  }
  for (std::size_t i = 0; i < response.support_size.size(); ++i) {
    const std::int64_t row = request.indices[i];
    const std::int32_t size = expected.support_size[static_cast<std::size_t>(row)];
    if (response.support_size[i] == size) continue;
    outcome.fail(fmt::format("{}: support size {} as output {}, and {} as output {}",
                             where(request, first, row), response.support_size[i], i, size, row));
    outcome.evidence.suspects.push_back(
        {"batches: indices",
         "support sizes belong to other outputs; without indices they are right"});
    return;
  }
  for (std::int64_t row = 0; row < rows.rows && !response.mask.empty(); ++row) {
    const auto words = static_cast<std::ptrdiff_t>(words_for(rows.vocab));
    const auto begin = response.mask.begin() + row * words;
    if (std::equal(begin, begin + words, expected.mask.begin() + row * words)) continue;
    outcome.fail(fmt::format("{}: the mask is another one with indices and gaps between rows",
                             where(request, first, row)));
    outcome.evidence.suspects.push_back(
        {"batches: indices, or strides of results", "without them the masks are right"});
    return;
  }
}

}  // namespace

CheckOutcome check_mask(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_mask && !sampler.reports_support) {
    return skipped(lack_of("reports_mask"));
  }
  if (input.row_input == RowInput::probabilities) {
    return skipped("draws from probabilities report no masks");
  }
  CheckOutcome outcome;
  const std::int64_t chunk =
      std::max<std::int64_t>(1, (std::int64_t{1} << 21) / input.logits->vocab());
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk) {
    const Request request = make_request(input, first, std::min(chunk, input.rows - first));
    if (const Lack lacks = lack_for(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const Response response =
        run_request(*input.sampler, request,
                    reported(sampler, {.statuses = true, .support_size = true, .mask = true}));
    if (!response.ran()) return outcome.fail(response.trouble());
    for (std::int64_t row = 0; row < request.rows && !outcome.failed(); ++row) {
      if (input.exact()) compare_with_model(input, request, response, first, row, outcome);
      compare_with_distribution(input, request, response, first, row, outcome);
      compare_with_tokens(request, response, first, row, outcome);
      ++outcome.rows;
    }
    if (outcome.failed()) {
      note_mask_mistakes(input, request, response, outcome);
      if (!outcome.evidence.boundary || !says_something(*outcome.evidence.boundary)) {
        suspect_size(input, request, response, outcome);
      }
    }
    compare_through_indices(input, request, response, first, outcome);
  }
  expect_refusals(input, outcome);
  if (outcome.failed()) return outcome;
  if (!input.exact() && outcome.measures["rows_judged"] == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  outcome.message = fmt::format("{} masks agree", outcome.rows);
  return outcome;
}

}  // namespace fairdraw::harness
