// Masks: the strictest of the checks, and one that needs no draws.
#include <fmt/format.h>

#include <algorithm>

#include "harness/run/checks.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;

std::string where(const Request& request, std::int64_t first, std::int64_t row) {
  return fmt::format("row {} ({})", first + row,
                     describe(request.parameters[static_cast<std::size_t>(row)]));
}

void compare_with_model(const Request& request, const Response& response, std::int64_t first,
                        std::int64_t row, CheckOutcome& outcome) {
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
    return;
  }
}

void compare_with_law(const CheckInput& input, const Request& request, const Response& response,
                      std::int64_t first, std::int64_t row, CheckOutcome& outcome) {
  const reference::RealLaw law = law_of(input, request, row);
  if (!law.defined || law.must_fail) return;  // judged by `status`
  ++outcome.measures["rows_judged"];
  if (law.ambiguous_mass > 0) ++outcome.measures["ambiguous_rows"];
  if (!response.support_size.empty()) {
    const std::int32_t size = response.support_size[static_cast<std::size_t>(row)];
    if (size < law.support_low || size > law.support_high) {
      outcome.fail(fmt::format("{}: support size {}, expected {} to {}", where(request, first, row),
                               size, law.support_low, law.support_high));
    }
  }
  if (response.mask.empty()) return;
  for (std::int64_t token = 0; token < request.vocab; ++token) {
    const Membership membership = law.membership[static_cast<std::size_t>(token)];
    if (membership == Membership::ambiguous) continue;
    const bool kept = response.kept(row, request.vocab, token);
    if (kept == (membership == Membership::in)) continue;
    outcome.fail(fmt::format("{}: token {} (logit {}) is {}, the real law {} it",
                             where(request, first, row), token, request.row(row)[token],
                             kept ? "in the mask" : "missing from the mask",
                             kept ? "excludes" : "includes"));
    return;
  }
}

}  // namespace

CheckOutcome check_mask(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.reports_mask && !sampler.reports_support) {
    return skipped("reports neither masks nor support sizes");
  }
  if (input.row_input == RowInput::probabilities) {
    return skipped("draws from probabilities report no masks");
  }
  CheckOutcome outcome;
  const std::int64_t chunk =
      std::max<std::int64_t>(1, (std::int64_t{1} << 21) / input.logits->vocab());
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk) {
    const Request request = make_request(input, first, std::min(chunk, input.rows - first));
    if (const std::string lacks = missing_ability(sampler, request); !lacks.empty()) {
      return skipped(lacks);
    }
    const Response response =
        run_request(*input.sampler, request,
                    reported(sampler, {.statuses = true, .support_size = true, .mask = true}));
    if (!response.ran()) return outcome.fail(response.trouble());
    for (std::int64_t row = 0; row < request.rows && !outcome.failed(); ++row) {
      if (input.exact()) compare_with_model(request, response, first, row, outcome);
      compare_with_law(input, request, response, first, row, outcome);
      ++outcome.rows;
    }
  }
  if (outcome.failed()) return outcome;
  if (!input.exact() && outcome.measures["rows_judged"] == 0) {
    return skipped("semantics " + input.semantics.name + " defines none of these rows");
  }
  outcome.message = fmt::format("{} masks agree", outcome.rows);
  return outcome;
}

}  // namespace fairdraw::harness
