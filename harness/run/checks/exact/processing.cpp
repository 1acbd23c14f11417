// Judges logits processing: every combination of its steps, in every form of histories, on good and
// bad rows.
//
// This check does not test a list that is outside of its buffer, which could crash a plugin. Steps
// in another order than fairdraw's count as wrong. The file processing_batches.h has the parts that
// need whole batches: large counts, padding, and requests that come and go.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "harness/inputs/processing_rows.h"
#include "harness/inputs/processing_steps.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/probability_rows.h"
#include "harness/run/checks/exact/processing_batches.h"
#include "harness/run/checks/exact/processing_calls.h"
#include "harness/run/checks/exact/processing_faults.h"
#include "harness/run/checks/exact/replay_relations.h"
#include "harness/run/evidence/mask_suspects.h"

namespace fairdraw::harness {
namespace {

using reference::Membership;
using reference::RowProcessing;

constexpr WantedResults kWanted = {
    .statuses = true, .support_size = true, .mask = true, .probs = true};
// The results that these relations compare: tokens, and the reports for their rows.
constexpr WantedResults kRelatedResults = {
    .report = {
        .values = true, .ranks = true, .mode = LogprobsMode::processed_logprobs, .top_n = 5}};

}  // namespace

Request processed_beforehand(const Request& request) {
  Request plain = request;
  plain.dtype = DType::float32;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const reference::ProcessedRow processed = processed_row(request, row);
    std::copy(processed.logits.begin(), processed.logits.end(),
              plain.logits.begin() + static_cast<std::ptrdiff_t>(row * request.vocab));
    plain.parameters[static_cast<std::size_t>(row)] = parameters_now(request, row);
  }
  plain.processing.clear();
  plain.allowed.clear();
  return plain;
}

namespace {

// Returns whether the row has no right token, or any token is right, so that a sampler without
// statuses may refuse the call because of this row.
bool may_end_the_call(const CheckInput& input, const Request& plain, const Request& request,
                      std::int64_t row) {
  if (processed_row(request, row).status != RowStatus::ok) return true;
  const reference::RealDistribution distribution = distribution_of(input, plain, row);
  return !distribution.defined || distribution.must_fail;
}

}  // namespace

Response run_processed(const CheckInput& input, const Request& request,
                       const WantedResults& wanted) {
  const SamplerDescription& sampler = input.sampler->description();
  const WantedResults reports = reported(sampler, request, wanted);
  Response response = run_request(*input.sampler, request, reports);
  if (response.refused.empty() || sampler.reports_status) return response;
  const Request plain = processed_beforehand(request);
  std::vector<bool> asked;
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const bool padding = !request.is_active(row);
    asked.push_back(!padding && !may_end_the_call(input, plain, request, row));
    if (!padding && !asked.back()) response.refused.clear();
  }
  if (!response.refused.empty()) return response;
  // If the call was refused, the rows that may not be the reason are sampled one by one.
  response.tokens.clear();
  response.mask.clear();
  response.probs.clear();
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const auto words = static_cast<std::size_t>(reports.mask ? words_for(request.vocab) : 0);
    if (!asked[static_cast<std::size_t>(row)]) {
      response.tokens.push_back(-1);
      response.mask.resize(response.mask.size() + words);
      continue;
    }
    const Response alone =
        run_request(*input.sampler, pick_rows(request, {row}), {.mask = reports.mask});
    if (!alone.ran()) return alone;
    response.tokens.push_back(alone.tokens.front());
    response.mask.insert(response.mask.end(), alone.mask.begin(), alone.mask.end());
  }
  return response;
}

namespace {

// --- Against the oracles -----------------------------------------------------------------------

// Returns the error in a row of an exact sampler, or an empty string if there is none.
std::string difference(const Request& request, const Response& response, std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  const reference::IntegerRow model = model_of(request, row);
  const ExpectedToken expected = expected_token(request, model, row, 0);
  if (!response.statuses.empty() &&
      response.statuses[at] != static_cast<std::int32_t>(expected.status)) {
    return fmt::format("status {}, expected {}", response.statuses[at], to_string(expected.status));
  }
  const bool ok = expected.status == RowStatus::ok;
  for (std::int64_t id = 0; !response.mask.empty() && id < request.vocab; ++id) {
    const bool must = ok && model.mask[static_cast<std::size_t>(id)] != 0;
    if (response.kept(row, request.vocab, id) == must) continue;
    return fmt::format("the mask {} token {}, the integer model {} it", must ? "lacks" : "holds",
                       id, must ? "keeps" : "drops");
  }
  if (response.tokens[at] != expected.token) {
    return fmt::format("token {}, the integer model says {}", response.tokens[at], expected.token);
  }
  // A logit that was rounded twice, or once too few, rarely changes the token, but it does change a
  // probability.
  for (std::int64_t id = 0; ok && !response.probs.empty() && id < request.vocab; ++id) {
    const float reported_probability =
        response.probs[static_cast<std::size_t>(row * request.vocab + id)];
    const float probability = model.probability(static_cast<std::int32_t>(id));
    if (reported_probability == probability) continue;
    return fmt::format("token {} has probability {:a}, expected {:a}", id, reported_probability,
                       probability);
  }
  if (!response.support_size.empty() &&
      response.support_size[at] != (ok ? model.support_size : 0)) {
    return fmt::format("support size {}, expected {}", response.support_size[at],
                       ok ? model.support_size : 0);
  }
  return {};
}

// Returns the error in a row of a sampler that claims only the distribution. The argument `plain`
// has the same rows with all processing already applied.
std::string departure(const CheckInput& input, const Request& plain, const Response& response,
                      std::int64_t row) {
  const reference::RealDistribution distribution = distribution_of(input, plain, row);
  if (!distribution.defined) return {};
  const std::int32_t token = response.tokens[static_cast<std::size_t>(row)];
  if (token < 0 || token >= plain.vocab) return fmt::format("token {}", token);
  if (distribution.membership[static_cast<std::size_t>(token)] == Membership::out) {
    return fmt::format("token {}, which is outside of the support", token);
  }
  for (std::int64_t id = 0; !response.mask.empty() && id < plain.vocab; ++id) {
    const Membership membership = distribution.membership[static_cast<std::size_t>(id)];
    if (membership == Membership::ambiguous) continue;
    if (response.kept(row, plain.vocab, id) == (membership == Membership::in)) continue;
    return fmt::format("the mask {} token {}", membership == Membership::in ? "lacks" : "holds",
                       id);
  }
  return {};
}

// Returns the relative error of a temperature that follows the entropy, computed in float32. With
// u = 2^-24 the entropy's share of ln V is off by (V + 8) u of 1 + 1 / ln V, which is below 2.5, so
// that with its own roundings it is off by less than 4 (V + 16) u. The power e of the share s is
// off by e s^(e - 1) of that, and by four roundings.
double dynamic_temperature_error(const RowProcessing& processing, float before, float now,
                                 std::int64_t vocab) {
  if (processing.dynatemp_range == 0 || before == 0) return 0;
  const double range = processing.dynatemp_range, exponent = processing.dynatemp_exponent;
  const double low = std::max(before - range, 0.0), width = before + range - low;
  const double power = std::clamp((now - low) / width, 0.0, 1.0);
  constexpr double kUnit = 0x1p-24;
  double error = 4 * kUnit;
  if (exponent > 0 && power > 0) {
    const double share = std::pow(power, 1 / exponent);
    error += exponent * power / share * 4 * static_cast<double>(vocab + 16) * kUnit;
  }
  return width * error / now + 4 * kUnit;
}

// Returns the absolute error of a logit after the penalty of repetitions, computed in float32: a
// power of e factors, by products or by a function that is off by at most 4 units, and three more
// operations.
double repetition_error(const RowProcessing& processing) {
  if (processing.dry_multiplier == 0) return 0;
  double error = 0;
  for (const auto& [id, length] : reference::repetitions(processing)) {
    const double factors = static_cast<double>(length) - processing.dry_allowed_length;
    const double penalty = processing.dry_multiplier * std::pow(processing.dry_base, factors);
    error = std::max(error, penalty * (factors + 7) * 0x1p-23);
  }
  return error;
}

// Returns the absolute error of the logits of adaptive_p, computed in float32 with u = 2^-24. A
// probability p is off by (V + 8) u p (reference::float32_filter_bound), and its logit's distance
// by 2 u per unit, which costs p times that distance at most 2 u, because p is at most 2^-distance.
// A logit is less steep than 100/3. Its eight operations round numbers below 2^7.
double adaptive_error(const RowProcessing& processing, std::int64_t vocab) {
  if (processing.adaptive_target < 0) return 0;
  return (static_cast<double>(vocab + 10) * 100 / 3 + 8 * 0x1p7) * 0x1p-24;
}

// Returns the error in the reported probabilities of a processed row.
std::string wrong_probabilities_in(const CheckInput& input, const Request& request,
                                   const Request& plain, const Response& response,
                                   std::int64_t row) {
  const auto at = static_cast<std::size_t>(row);
  const RowProcessing& processing = request.processing[at];
  const double error = dynamic_temperature_error(processing, request.parameters[at].temperature,
                                                 plain.parameters[at].temperature, request.vocab);
  return wrong_probabilities(
      input, plain, response, row, error,
      repetition_error(processing) + adaptive_error(processing, request.vocab));
}

}  // namespace

std::string wrong_in(const CheckInput& input, const Request& request, const Request& plain,
                     const Response& response, std::int64_t row) {
  if (input.exact()) return difference(request, response, row);
  std::string wrong = departure(input, plain, response, row);
  if (!wrong.empty() || response.probs.empty()) return wrong;
  const reference::RealDistribution distribution = distribution_of(input, plain, row);
  if (!distribution.defined || distribution.must_fail) return {};
  return wrong_probabilities_in(input, request, plain, response, row);
}

namespace {

// Returns whether some row is wrong even if the call has processing, but no row has any step of it.
// Then the mistake is in a later step of the sampler. It is named if one mistake alone explains the
// masks; the rows of a call are too few to choose among several.
bool is_wrong_without_steps(const CheckInput& input, Request request, CheckOutcome& outcome) {
  for (RowProcessing& row : request.processing) {
    for (const ProcessingStep& step : processing_steps()) step.leave_out(row);
  }
  const Response response = run_processed(input, request, kWanted);
  if (!response.ran()) return false;
  const Request plain = processed_beforehand(request);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    if (!request.is_active(row) || wrong_in(input, request, plain, response, row).empty()) continue;
    CheckOutcome noted;
    note_mask_mistakes(input, plain, response, noted);
    const std::vector<Suspect>& mistakes = noted.evidence.suspects;
    if (mistakes.size() == 1) outcome.evidence.suspects.push_back(mistakes.front());
    return true;
  }
  return false;
}

// Leaves out one step at a time, in the row alone of the whole call. If the row is right without a
// step, that step is wrong. If the row is right without any of several steps, it hardly matters
// which of them is wrong, and none is named.
void name_the_step(const CheckInput& input, const Request& request, std::int64_t row,
                   CheckOutcome& outcome) {
  constexpr std::size_t kMaxSteps = 2;
  const auto answer = [&input](const Request& asked) {
    return run_request(*input.sampler, asked,
                       reported(input.sampler->description(), asked, kWanted));
  };
  std::vector<Suspect> named;
  for (const ProcessingStep& step : processing_steps()) {
    Request without = request;
    step.leave_out(without.processing[static_cast<std::size_t>(row)]);
    const Response response = answer(without);
    if (!response.ran() ||
        !wrong_in(input, without, processed_beforehand(without), response, row).empty()) {
      continue;
    }
    named.push_back({step.description, fmt::format("row {} is right without it", row)});
  }
  if (named.size() <= kMaxSteps) {
    outcome.evidence.suspects.insert(outcome.evidence.suspects.end(), named.begin(), named.end());
  }
  if (!outcome.evidence.suspects.empty()) return;
  const Response response = answer(request);
  for (std::int64_t id = 0; response.ran() && !response.mask.empty() && id < request.vocab; ++id) {
    if (!response.kept(row, request.vocab, id) || !is_banned(request, row, id)) continue;
    return note_ban(request, row, id, "kept", outcome);
  }
}

}  // namespace

void note_wrong_step(const CheckInput& input, const Request& request, std::int64_t row,
                     CheckOutcome& outcome) {
  // A row of a mistake in no step may be right without a step by chance.
  if (is_wrong_without_steps(input, request, outcome)) return;
  name_the_step(input, request, row, outcome);
}

namespace {

void compare_with_oracle(const CheckInput& input, const Request& request, std::int64_t first,
                         CheckOutcome& outcome) {
  const Response response = run_processed(input, request, kWanted);
  if (!response.ran()) {
    outcome.fail(response.trouble());
    return;
  }
  Request plain;
  if (!input.exact()) plain = processed_beforehand(request);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    ++outcome.draws;
    if (!input.exact() && processed_row(request, row).status != RowStatus::ok) continue;
    const std::string wrong = wrong_in(input, request, plain, response, row);
    if (wrong.empty()) continue;
    outcome.fail(fmt::format("row {} ({}): {}", first + row,
                             describe(request.parameters[static_cast<std::size_t>(row)]), wrong));
    note_wrong_step(input, request, row, outcome);
    return;
  }
}

// --- Relations ---------------------------------------------------------------------------------

template <class T>
void shuffle(std::vector<T>& values, std::uint64_t seed) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[mixed(seed, i) % i]);
  }
}

Request with_lists_shuffled(Request request, std::uint64_t seed) {
  for (RowProcessing& row : request.processing) {
    shuffle(row.prompt, seed);
    if (row.bad_words.empty()) shuffle(row.output, seed + 1);
    shuffle(row.stop_ids, seed + 2);
    shuffle(row.allowed_ids, seed + 3);
  }
  return request;
}

// Returns a request in which output i samples row `rows - 1 - i`.
Request through_indices(const Request& request) {
  Request indexed = request;
  indexed.with_indices = true;
  for (std::int64_t i = request.rows; i-- > 0;) {
    indexed.indices.push_back(static_cast<std::int32_t>(i));
  }
  std::reverse(indexed.seed.begin(), indexed.seed.end());
  std::reverse(indexed.offset.begin(), indexed.offset.end());
  return indexed;
}

Request with_rows_reversed(const Request& request) {
  Request reversed = request;
  const auto rows = static_cast<std::ptrdiff_t>(request.rows);
  const auto turn = [rows](auto& values, std::ptrdiff_t width) {
    const auto before = values;
    for (std::ptrdiff_t row = 0; row < rows && !before.empty(); ++row) {
      std::copy_n(before.begin() + row * width, width, values.begin() + (rows - 1 - row) * width);
    }
  };
  turn(reversed.logits, request.vocab);
  turn(reversed.allowed, words_for(request.vocab));
  turn(reversed.parameters, 1);
  turn(reversed.processing, 1);
  turn(reversed.seed, 1);
  turn(reversed.offset, 1);
  return reversed;
}

// Compares the reports for one output in two calls, bit for bit.
std::string difference_of_reports(const Response& a, std::size_t at, const Response& b,
                                  std::size_t was) {
  const auto same = [](float x, float y) { return std::memcmp(&x, &y, sizeof(x)) == 0; };
  if (!same(a.report_values[at], b.report_values[was])) {
    return fmt::format("log-probability {}, was {}", a.report_values[at], b.report_values[was]);
  }
  if (!a.report_ranks.empty() && a.report_ranks[at] != b.report_ranks[was]) {
    return fmt::format("rank {}, was {}", a.report_ranks[at], b.report_ranks[was]);
  }
  const auto top_n = static_cast<std::size_t>(kRelatedResults.report.top_n);
  for (std::size_t n = 0; n < top_n; ++n) {
    const std::int32_t id = a.report_top_ids[at * top_n + n];
    const std::int32_t before = b.report_top_ids[was * top_n + n];
    if (id != before) return fmt::format("entry {} of the top is {}, was {}", n, id, before);
  }
  return {};
}

void expect_same(const CheckInput& input, const char* relation, const Response& expected,
                 const Request& changed, bool reversed, CheckOutcome& outcome) {
  if (outcome.failed()) return;
  const Response response = run_request(
      *input.sampler, changed, reported(input.sampler->description(), changed, kRelatedResults));
  outcome.draws += static_cast<std::uint64_t>(changed.rows);
  ++outcome.measures["relations"];
  if (!response.ran() || !expected.ran()) {
    outcome.fail(fmt::format("{}: {}{}", relation, response.trouble(), expected.trouble()));
    return;
  }
  const auto rows = static_cast<std::size_t>(changed.rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t at = reversed ? rows - 1 - i : i;
    std::string wrong;
    if (response.tokens[at] != expected.tokens[i]) {
      wrong = fmt::format("token {}, was {}", response.tokens[at], expected.tokens[i]);
    } else if (input.exact() && !expected.report_values.empty()) {
      wrong = difference_of_reports(response, at, expected, i);
    }
    if (wrong.empty()) continue;
    outcome.fail(fmt::format("{}: row {}: {}", relation, i, wrong));
    if (response.tokens[at] == expected.tokens[i]) {
      outcome.evidence.suspects.push_back(
          {"log-probabilities: values", "the tokens of both calls are equal"});
    }
    return;
  }
}

void compare_relations(const CheckInput& input, const Request& request, CheckOutcome& outcome) {
  const auto answer = [&input](const Request& asked) {
    return run_request(*input.sampler, asked,
                       reported(input.sampler->description(), asked, kRelatedResults));
  };
  const Response expected = answer(request);
  if (!expected.ran()) {
    outcome.fail(expected.trouble());
    return;
  }
  const auto same = [&](const char* relation, const Request& changed, bool reversed = false) {
    expect_same(input, relation, expected, changed, reversed, outcome);
  };
  Request form = request;
  form.history_form = {.prompt_mask = true, .output_counts = false};
  if (input.sampler->description().processing_buffers) {
    same("prompts as masks", form);
    form.history_form = {.prompt_mask = false, .output_counts = true};
    same("outputs as counts", form);
  }
  same("lists in another order", with_lists_shuffled(request, input.seed + 6));
  same("rows in another order", with_rows_reversed(request), /*reversed=*/true);
  if (input.sampler->description().indices) {
    same("through indices", through_indices(request), /*reversed=*/true);
  }
  if (input.exact()) same("rows processed beforehand", processed_beforehand(request));
  Request neutral = request, none = request;
  // The histories are given, although no step uses them.
  for (RowProcessing& row : neutral.processing) {
    const RowProcessing before = std::exchange(row, {});
    row.prompt = before.prompt;
    row.output = before.output;
    row.output_length = before.output_length;
  }
  none.processing.clear();
  expect_same(input, "neutral processing, against none", answer(none), neutral, false, outcome);
  constexpr std::int64_t kAlone = 8;
  for (std::int64_t row = 0; row < std::min(request.rows, kAlone) && !outcome.failed(); ++row) {
    Response of_row;  // tokens only
    of_row.tokens = {expected.tokens[static_cast<std::size_t>(row)]};
    expect_same(input, "a row alone", of_row, pick_rows(request, {row}), false, outcome);
  }
}

}  // namespace

CheckOutcome check_processing(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (!sampler.processing) return skipped(lack_of("processing"));
  if (input.row_input == RowInput::probabilities) return skipped("probabilities are not processed");
  if (const Lack lacks = lack_for(sampler, make_request(input, 0, 1)); !lacks.empty()) {
    return skipped(lacks);
  }
  CheckOutcome outcome;
  outcome.rows = static_cast<std::uint64_t>(input.rows);
  const std::int64_t chunk =
      std::clamp<std::int64_t>((std::int64_t{1} << 20) / input.logits->vocab(), 1, 64);
  const HistoryArrays forms[] = {{}, {true, false}, {false, true}, {true, true}};
  const std::size_t forms_taken = sampler.processing_buffers ? std::size(forms) : 1;
  for (std::int64_t first = 0; first < input.rows && !outcome.failed(); first += chunk) {
    const Request request =
        with_processing(input, first, std::min(chunk, input.rows - first),
                        forms[static_cast<std::size_t>(first / chunk) % forms_taken]);
    compare_with_oracle(input, request, first, outcome);
  }
  constexpr std::int64_t kRelated = 16;
  const std::int64_t related = std::min({input.rows, chunk, kRelated});
  if (!outcome.failed() && sampler.per_request_seeds) {
    // A rule of histories has no counterpart in the forms that the relations compare.
    Request request = with_processing(input, 0, related, {});
    for (RowProcessing& row : request.processing) {
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) row.name = neutral;
#include "fairdraw/processing_parameters.inc"
      row.forced_tokens.clear();
    }
    compare_relations(input, request, outcome);
  }
  const bool promised = sampler.processing_buffers &&
                        input.semantics.invalid_parameter == reference::InvalidParameter::row_error;
  if (!outcome.failed() && promised) {
    const std::int64_t rows = std::min<std::int64_t>(related, 5);
    expect_bad_processing_fails(input, with_processing(input, 0, rows, {}), outcome);
  }
  expect_large_counts(input, outcome);
  expect_padding_passed_over(input, outcome);
  expect_running_batch(input, outcome);
  if (!outcome.failed()) {
    outcome.message = fmt::format("{} rows, {} relations and {} kinds of bad values", outcome.rows,
                                  outcome.measures["relations"], outcome.measures["faults"]);
    if (!sampler.lacked_steps.empty()) {
      outcome.message += fmt::format("; without {}", fmt::join(sampler.lacked_steps, ", "));
    }
    if (!sampler.processing_buffers) {
      outcome.message += "; faulty lists have no form here";
    } else if (!promised) {
      outcome.message += fmt::format("; semantics {} does not define the results of bad values",
                                     input.semantics.name);
    }
  }
  return outcome;
}

}  // namespace fairdraw::harness
